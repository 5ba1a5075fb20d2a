#pragma once
#include "cub/block/block_scan.cuh"
