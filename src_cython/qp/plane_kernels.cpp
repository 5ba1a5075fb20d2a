// The table of the loops of cut_products.h for one instruction set (cpu/isa.h).
#include "cpu/instruction_set.h"
//
#include "cpu/dense_kernels.h"
#include "qp/cut_products.h"

namespace bmrm::BMRM_ISA {

const PlaneKernels plane_kernels = {Dense<double>::gram, Dense<double>::add_rows};

}  // namespace bmrm::BMRM_ISA
