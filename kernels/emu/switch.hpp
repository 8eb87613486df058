// switch.hpp: changing from one fiber's stack to another in a few instructions.
// Place      Used by emu.cpp. A switch saves what the calling convention asks a function to keep, and nothing else: no
//            signal mask, which is what makes the library's own context switch a system call.
#pragma once

extern "C" void tether_emu_switch(void** save_sp, void* to_sp);
/// First thing a new fiber runs: calls the function and argument that prepare_stack left in saved registers.
extern "C" void tether_emu_start();

#if defined(__x86_64__)
// System V: rbx, rbp, r12 to r15 are kept.
asm(R"(
.text
.globl tether_emu_switch
.type tether_emu_switch, @function
tether_emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size tether_emu_switch, .-tether_emu_switch
.globl tether_emu_start
.type tether_emu_start, @function
tether_emu_start:
    movq %r12, %rdi
    callq *%rbx
    ud2
.size tether_emu_start, .-tether_emu_start
)");

/// The first stack pointer of a fiber that will run `entry(arg)`; entry never returns.
inline void* prepare_stack(char* top, void (*entry)(void*), void* arg) {
    void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15));
    *--sp = nullptr, *--sp = nullptr;  // the stack is a multiple of 16 at the call in tether_emu_start
    *--sp = reinterpret_cast<void*>(tether_emu_start);
    *--sp = nullptr;                          // rbp
    *--sp = reinterpret_cast<void*>(entry);   // rbx
    *--sp = arg;                              // r12
    *--sp = nullptr, *--sp = nullptr, *--sp = nullptr;
    return sp;
}

#elif defined(__aarch64__)
// AAPCS64: x19 to x30 and the low halves of v8 to v15 are kept.
asm(R"(
.text
.globl tether_emu_switch
.type tether_emu_switch, %function
tether_emu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size tether_emu_switch, .-tether_emu_switch
.globl tether_emu_start
.type tether_emu_start, %function
tether_emu_start:
    mov x0, x20
    blr x19
    brk #1
.size tether_emu_start, .-tether_emu_start
)");

inline void* prepare_stack(char* top, void (*entry)(void*), void* arg) {
    char* end = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15));
    void** sp = reinterpret_cast<void**>(end - 160);
    for (int i = 0; i < 20; ++i) sp[i] = nullptr;
    sp[0] = reinterpret_cast<void*>(entry);              // x19
    sp[1] = arg;                                         // x20
    sp[11] = reinterpret_cast<void*>(tether_emu_start);  // x30
    return sp;
}
#else
#error "the emulator has a context switch for x86-64 and aarch64 only; build without the feature `emu`"
#endif
