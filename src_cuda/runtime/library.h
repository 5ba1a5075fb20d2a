// A shared library that is looked for when it is wanted.
#pragma once
#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "runtime/failure.h"

namespace bmrm {

class Library {
  public:
    /// By a name or a path that dlopen knows; it stays open.
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
