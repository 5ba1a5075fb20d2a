#pragma once
#include "cub/device/device_scan.cuh"
