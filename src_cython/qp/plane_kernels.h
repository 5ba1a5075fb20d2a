// The table of the loops of cut_products.h for one instruction set (cpu/isa.h). The only include of a
// translation unit besides the header of the set.
#pragma once

#include "cpu/dense_kernels.h"
#include "qp/cut_products.h"

namespace bmrm::BMRM_ISA {

const PlaneKernels plane_kernels = {Dense<double>::gram, Dense<double>::add_rows};

}  // namespace bmrm::BMRM_ISA
