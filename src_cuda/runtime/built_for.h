// The architectures that this build has code for, and whether a device can run it.
#pragma once
#include "api/blackbox.h"

namespace bmrm {

// Throws a Failure that says what the build has code for, if the driver finds none for the device.
void expect_code(const bb_device& device);

}  // namespace bmrm
