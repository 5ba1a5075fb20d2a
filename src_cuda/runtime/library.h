// A shared library that is loaded on demand.
#pragma once
#include <dlfcn.h>

#include <mutex>
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

// The functions of a library that are used here: pointers in a struct, which are set when it is loaded.
template <class Calls>
class LoadedCalls {
  public:
    explicit operator bool() const { return loaded_; }
    const Calls* operator->() const { return &calls_; }

    // Loads the library at the first call; find(library, calls) sets the pointers. A failure leaves it
    // unloaded.
    template <class Find>
    void load(const char* name, const Find& find) {
        const std::lock_guard<std::mutex> hold(mutex_);
        if (loaded_) return;
        find(Library(name), calls_);
        loaded_ = true;
    }

  private:
    std::mutex mutex_;
    Calls calls_;
    bool loaded_ = false;
};

}  // namespace bmrm
