#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <string>
#include <string_view>

#include "api/reply.h"

namespace http {

// A request's header as the api knows it; no body.
[[nodiscard]] api::ApiRequest ToApiRequest(
    const boost::beast::http::request_header<boost::beast::http::fields>& header);

// The client's own id when it is short and plain, else a new one: it goes into a header and a log.
[[nodiscard]] std::string RequestId(std::string_view given);

// "%2F" -> "/"; what is no valid escape stays as it is.
[[nodiscard]] std::string PercentDecode(std::string_view text);

}  // namespace http
