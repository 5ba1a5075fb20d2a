#include "cpu/baseline.h"
//
#include "qp/plane_kernels.h"
