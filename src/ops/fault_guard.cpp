#include "ops/fault_guard.h"

#include <setjmp.h>

#include <cstddef>

namespace ops {
namespace {

constinit thread_local sigjmp_buf* probing = nullptr;  // set while this thread runs a probe

void OnFault(int signal_number) {
  if (probing != nullptr) {
    siglongjmp(*probing, 1);
  }
  // Another thread's own fault: give it the default end, on return the instruction faults again.
  signal(signal_number, SIG_DFL);
}

}  // namespace

FaultGuard::FaultGuard() {
  struct sigaction action = {};
  action.sa_handler = &OnFault;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kFaultSignals.size(); ++i) {
    sigaction(kFaultSignals[i], &action, &saved_[i]);
  }
}

FaultGuard::~FaultGuard() {
  for (std::size_t i = 0; i < kFaultSignals.size(); ++i) {
    sigaction(kFaultSignals[i], &saved_[i], nullptr);
  }
}

bool FaultGuard::Survives(void (*probe)()) const {
  sigjmp_buf here;
  if (sigsetjmp(here, 1) != 0) {
    probing = nullptr;
    return false;
  }
  probing = &here;
  probe();
  probing = nullptr;
  return true;
}

}  // namespace ops
