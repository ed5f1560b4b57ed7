#pragma once

namespace api {

// Lambdas as the cases of a std::visit.
template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

}  // namespace api
