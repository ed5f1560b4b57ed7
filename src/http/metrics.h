#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/served_model.h"
#include "http/server.h"

namespace http {

// What /metrics shows, in Prometheus' text form. Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // `route`: the pattern, so that paths do not become labels without bound.
  void Count(std::string_view route, const AnswerRecord& record);

  // What was counted, and each model's scheduler and cache as they are now.
  [[nodiscard]] std::string Text(api::ModelManager& models) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace http
