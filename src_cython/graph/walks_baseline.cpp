#include "cpu/baseline.h"
//
#include "graph/kernels.h"
