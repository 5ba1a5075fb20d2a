// Fibers on x86-64: functions that run one after another, each on a stack of its own.  Those of <ucontext.h>
// make two system calls per switch.
#pragma once
#include <stdint.h>

asm(R"(
.text
.weak emulator_switch
.hidden emulator_switch
emulator_switch:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
)");

namespace emulator {

// Goes on at stack `to`; where this fiber stopped is written to `from`.
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void** from, void* to);

// Returns where a fiber starts that calls `enter`, which must not return.
inline void* first_stack_pointer(char* stack, uintptr_t bytes, void (*enter)()) {
    constexpr int kSaved = 6;
    const auto top = (reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16;
    auto* words = reinterpret_cast<void**>(top) - 2;  // so that the stack is aligned as after a call
    *words = reinterpret_cast<void*>(enter);
    return words - kSaved;
}

}  // namespace emulator
