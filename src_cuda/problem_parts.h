// What a loss that the caller evaluates (own_loss.cu) and joint risks (joint.cu) use of a problem
// (problem.h).
#pragma once
#include "kernels/risk.cuh"
#include "matrix.h"

struct ProblemParts {
    bb_matrix* matrix;
    bmrm::RiskRows risk;
    int blocks;  // of a pass over the rows
    double *partial, *sums;
    uint32_t* ticket;
    void* derivatives[2];
    bmrm::Mailbox* mailbox;
};

ProblemParts parts_of(bb_problem& problem);
