// Fibers: each CUDA thread has a stack of its own and runs until it suspends itself.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__x86_64__)
// Saves the callee-saved registers and the stack pointer, loads those of another fiber. ucontext would do as well, but
// it makes two system calls a switch.
extern "C" void emulator_switch(void **save, void *load);
asm(".text\n.p2align 4\n.globl emulator_switch\n.hidden emulator_switch\n.type emulator_switch,@function\n"
    "emulator_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size emulator_switch,.-emulator_switch\n");
#endif

namespace emulator {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 128 << 10;

  // Make a fresh stack on which `entry`, which must never return, starts at the first resume().
  void prepare(void (*entry)()) {
    stack_.resize(kStackBytes);
#if defined(__x86_64__)
    const uintptr_t top = (reinterpret_cast<uintptr_t>(stack_.data()) + stack_.size()) & ~uintptr_t{63};
    void **frame = reinterpret_cast<void **>(top) - 2;
    frame[0] = reinterpret_cast<void *>(entry);  // the "return address" of the first switch
    frame[1] = nullptr;
    frame -= 6;  // the six registers that the switch pops
    memset(frame, 0, 6 * sizeof *frame);
    context_ = frame;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.data();
    context_.uc_stack.ss_size = stack_.size();
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
#endif
  }

#if defined(__x86_64__)
  void resume() {
    emulator_switch(&scheduler_, context_);
    asm volatile("" ::: "memory");
  }
  void suspend() {
    emulator_switch(&context_, scheduler_);
    asm volatile("" ::: "memory");
  }
#else
  void resume() { swapcontext(&scheduler_, &context_); }
  void suspend() { swapcontext(&context_, &scheduler_); }
#endif

  bool holds(const void *address) const { return address >= stack_.data() && address < stack_.data() + stack_.size(); }

 private:
  std::vector<char> stack_;
#if defined(__x86_64__)
  void *context_ = nullptr;
  static inline void *scheduler_ = nullptr;
#else
  ucontext_t context_;
  static inline ucontext_t scheduler_;
#endif
};

}  // namespace emulator
