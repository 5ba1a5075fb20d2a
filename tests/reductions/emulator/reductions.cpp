// What a handle does on a device.
#include "runtime/device_memory.h"

namespace bmrm {

void Memory::settle() noexcept {}

}  // namespace bmrm
