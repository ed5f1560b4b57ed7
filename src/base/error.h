#pragma once

#include <string>

// What went wrong, in terms that every protocol can turn into its own error body
// (api/error_body.h).
enum class ErrorCode {
  kInvalidRequest,         // a field has a wrong type or value; `param` names it
  kContextLengthExceeded,  // prompt longer than the context
  kUnauthorized,           // missing or wrong key
  kForbidden,              // e.g. a foreign Host header
  kNotFound,               // no such path
  kModelNotFound,          // no such model
  kMethodNotAllowed,
  kRequestTimeout,  // the client sent its request too slowly
  kBodyTooLarge,    // over the body limit
  kOverloaded,      // queue full: try again later
  kOutOfMemory,     // the memory budget cannot hold this request
  kTimeout,         // generation took longer than --timeout
  kCancelled,       // the client left or cancelled
  kUnsupported,     // a feature that is not there
  kBadModel,        // a model file that is damaged, incomplete or of an unknown kind
  kIo,              // reading or writing a file failed
  kShuttingDown,    // the server is draining
  kInternal,        // our own mistake; the message carries no details of the code
};

// One error. `message` is a whole sentence for the person who caused it: it names the field, the
// limit and the value given ("`top_p` must be > 0 and <= 1, got 1.5").
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string param;  // request field, when one is at fault; else empty
};
