// A shared library that is loaded on demand.
#pragma once
#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "runtime/failure.h"

namespace bmrm {

class Library {
  public:
    // Loads the library by a name or a path for dlopen; it is never closed.
    explicit Library(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
        if (!handle_) throw Failure(BB_CUDA, dlerror());
    }
    template <class Call>
    void symbol(Call& call, const char* name) const {
        call = reinterpret_cast<std::remove_reference_t<Call>>(dlsym(handle_, name));
        if (!call) throw Failure(BB_CUDA, name_ + ": has no " + name);
    }

  private:
    std::string name_;
    void* handle_;
};

}  // namespace bmrm
