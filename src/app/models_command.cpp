#include "app/models_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "app/print.h"
#include "base/bytes.h"
#include "base/json.h"
#include "model_files/library.h"
#include "models/model.h"

namespace app {
namespace {

using model_files::FoundModel;

constexpr std::size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;

Json ToJson(const FoundModel& model) {
  return {{"name", model.name},
          {"path", model.path.string()},
          {"place", model.place},
          {"format", model.format},
          {"architecture", model.architecture},
          {"quantization", model.quantization},
          {"size_bytes", model.size_bytes},
          {"servable", model.servable},
          {"why_not", model.why_not}};
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

Row ToRow(const FoundModel& model) {
  return {model.name,
          model.place,
          OrDash(model.format),
          OrDash(model.architecture),
          OrDash(model.quantization),
          FormatBytes(model.size_bytes),
          model.servable ? "yes" : "no: " + model.why_not};
}

void PrintTable(const std::vector<FoundModel>& models) {
  std::vector<Row> rows = {
      {"NAME", "PLACE", "FORMAT", "ARCHITECTURE", "QUANTISATION", "SIZE", "CAN BE SERVED"}};
  std::ranges::transform(models, std::back_inserter(rows), ToRow);
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < kColumns; ++i) {
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    PrintTo(stdout, "{}{}\n", line, row.back());
  }
}

}  // namespace

int RunModelsCommand(bool json) {
  const std::vector<FoundModel> found = model_files::FindModels(models::KnownModelTypes());
  if (json) {
    Json list = Json::array();
    std::ranges::transform(found, std::back_inserter(list), ToJson);
    PrintTo(stdout, "{}\n", DumpJson(list));
    return 0;
  }
  if (found.empty()) {
    PrintTo(
        stdout,
        "No models were found. Put them into a folder and name it in EMBERBANK_MODELS, or fetch "
        "one with LM Studio, "
        "Ollama or the Hugging Face tools.\n");
    return 0;
  }
  PrintTable(found);
  return 0;
}

}  // namespace app
