// The kernels of products, for one instruction set (each_instruction_set.h), in the order of their use.
#include "cpu/pack.h"
//
#include "cpu/sparse_kernels.h"
//
#include "cpu/dense_kernels.h"
