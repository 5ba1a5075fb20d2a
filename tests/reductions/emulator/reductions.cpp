// What a handle does on a device.
#include "runtime/device_memory.h"

namespace bmrm {

void Memory::settle() noexcept {}
std::string size_text(double bytes) { return std::to_string(bytes) + " B"; }

}  // namespace bmrm
