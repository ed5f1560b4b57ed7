#include "http/error_response.h"

#include <boost/beast/http/status.hpp>
#include <ostream>  // Beast's header uses it without including it

namespace http {

int HttpStatus(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidRequest:
    case ErrorCode::kContextLengthExceeded:
    case ErrorCode::kOutOfMemory:  // this request can never fit: clients must not try it again
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kUnauthorized:
      return 401;
    case ErrorCode::kForbidden:
      return 403;
    case ErrorCode::kNotFound:
    case ErrorCode::kModelNotFound:
      return 404;
    case ErrorCode::kMethodNotAllowed:
      return 405;
    case ErrorCode::kRequestTimeout:
      return 408;
    case ErrorCode::kBodyTooLarge:
      return 413;
    case ErrorCode::kOverloaded:
      return 429;
    case ErrorCode::kCancelled:
      return 499;  // nginx's "client closed request": only the log sees it
    case ErrorCode::kShuttingDown:
      return 503;
    case ErrorCode::kTimeout:
      return 504;
    case ErrorCode::kBadModel:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

std::string_view ReasonPhrase(int status) {
  if (status == 499) {
    return "Client Closed Request";
  }
  const auto phrase =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return {phrase.data(), phrase.size()};
}

int RetryAfterSeconds(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOverloaded:
      return 1;  // a place in the queue is free within a second or so
    case ErrorCode::kShuttingDown:
      return 5;  // a restart
    default:
      return 0;
  }
}

}  // namespace http
