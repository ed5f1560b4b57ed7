#include "app/kernel_choice.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace app {
namespace {

std::string_view NameForPeople(ops::InstructionSet set) {
  switch (set) {
    case ops::InstructionSet::kPlain:
      return "plain C++";
    case ops::InstructionSet::kAvx2:
      return "AVX2";
    case ops::InstructionSet::kAvx512Vnni:
      return "AVX-512 VNNI";
    case ops::InstructionSet::kNeon:
      return "NEON";
  }
  return "plain C++";
}

}  // namespace

Result<KernelChoice> ChooseKernels(const Environment& environment, int threads) {
  KernelChoice choice;
  const std::string name = environment("EMBERBANK_KERNELS").value_or(EMBERBANK_DEFAULT_KERNELS);
  if (name == "reference") {
    choice.path = ops::KernelPath::kReference;
  } else if (name != "native") {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("EMBERBANK_KERNELS must be reference or native, got \"{}\".", name));
  }
  choice.instruction_set = ops::BestInstructionSet();
  choice.threads = threads > 0 ? threads : ops::DetectCpu().physical_cores;
  return choice;
}

std::string Describe(const KernelChoice& choice) {
  if (choice.path == ops::KernelPath::kReference) {
    return "MLX graph (reference)";
  }
  return fmt::format("{}, {} thread{}", NameForPeople(choice.instruction_set), choice.threads,
                     choice.threads == 1 ? "" : "s");
}

}  // namespace app
