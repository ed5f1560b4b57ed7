#include "api/error_body.h"

#include <string>

namespace api {
namespace {

struct Wording {
  const char* openai_type;
  const char* openai_code;  // nullptr: null
  const char* anthropic_type;
};

Wording WordingOf(ErrorCode code) {
  constexpr const char* kInvalid = "invalid_request_error";
  switch (code) {
    case ErrorCode::kInvalidRequest:
      return {kInvalid, nullptr, kInvalid};
    case ErrorCode::kContextLengthExceeded:
      return {kInvalid, "context_length_exceeded", kInvalid};
    case ErrorCode::kUnauthorized:
      return {"authentication_error", "invalid_api_key", "authentication_error"};
    case ErrorCode::kForbidden:
      return {"permission_error", "forbidden", "permission_error"};
    case ErrorCode::kNotFound:
      return {kInvalid, "not_found", "not_found_error"};
    case ErrorCode::kModelNotFound:
      return {kInvalid, "model_not_found", "not_found_error"};
    case ErrorCode::kMethodNotAllowed:
      return {kInvalid, "method_not_allowed", kInvalid};
    case ErrorCode::kRequestTimeout:
      return {kInvalid, "request_timeout", kInvalid};
    case ErrorCode::kBodyTooLarge:
      return {kInvalid, "request_too_large", "request_too_large"};
    case ErrorCode::kOverloaded:
      return {"rate_limit_error", "rate_limit_exceeded", "rate_limit_error"};
    case ErrorCode::kOutOfMemory:
      return {kInvalid, "insufficient_memory", kInvalid};
    case ErrorCode::kTimeout:
      return {"server_error", "timeout", "timeout_error"};
    case ErrorCode::kCancelled:
      return {"server_error", "cancelled", "api_error"};
    case ErrorCode::kUnsupported:
      return {kInvalid, "unsupported", kInvalid};
    case ErrorCode::kBadModel:
      return {"server_error", "bad_model", "api_error"};
    case ErrorCode::kShuttingDown:
      return {"server_error", "shutting_down", "overloaded_error"};
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {"server_error", "internal_error", "api_error"};
}

bool IsAnthropic(std::string_view path) {
  constexpr std::string_view kPrefix = "/v1/messages";
  return path == kPrefix || path.starts_with("/v1/messages/");
}

}  // namespace

std::string_view ErrorEventName(std::string_view path) { return IsAnthropic(path) ? "error" : ""; }

Json ErrorBody(std::string_view path, const Error& error) {
  const Wording wording = WordingOf(error.code);
  if (IsAnthropic(path)) {
    return {{"type", "error"},
            {"error", {{"type", wording.anthropic_type}, {"message", error.message}}}};
  }
  return {{"error",
           {{"message", error.message},
            {"type", wording.openai_type},
            {"param", error.param.empty() ? Json(nullptr) : Json(error.param)},
            {"code", wording.openai_code == nullptr ? Json(nullptr) : Json(wording.openai_code)}}}};
}

}  // namespace api
