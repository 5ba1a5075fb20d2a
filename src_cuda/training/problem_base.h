// The part of a problem (problem.h) that caller-evaluated losses (python_loss.cu) and joint risks
// (joint/joint.cu) use.
#pragma once
#include "matrix/matrix.h"
#include "training/kernels/risk.cuh"

struct ProblemBase {
    bb_matrix* matrix;
    bmrm::RiskRows risk;
    int blocks;  // of a pass over the rows
    double *partial, *sums;
    uint32_t* ticket;
    void* derivatives[2];
    bmrm::Mailbox* mailbox;
};

ProblemBase base_of(bb_problem& problem);
