#include "parsers/shared_json_call.h"

#include <optional>
#include <utility>

#include "base/json.h"
#include "parsers/shared_json_scan.h"

namespace parsers {
namespace {

// Reads one object, list or string as JSON text; nothing when it is cut or broken.
Task<std::optional<std::string>> ReadJsonText(Scanner& in) {
  JsonScan scan;
  std::string text;
  while (co_await in.Need(1)) {
    const JsonScan::Result result = scan.Push(in[0], text);
    if (result == JsonScan::Result::kBad) {
      co_return std::nullopt;
    }
    in.Take(1);
    if (result == JsonScan::Result::kDone) {
      co_return text;
    }
  }
  co_return std::nullopt;
}

Task<std::optional<std::string>> ReadString(Scanner& in) {
  const bool is_string = co_await in.Sees("\"");
  if (!is_string) {
    co_return std::nullopt;
  }
  const std::optional<std::string> text = co_await ReadJsonText(in);
  if (!text) {
    co_return std::nullopt;
  }
  const Result<Json> value = ParseJson(*text);
  co_return value ? std::optional(value->get<std::string>()) : std::nullopt;
}

// Any value, read over.
Task<bool> SkipValue(Scanner& in) {
  const bool more = co_await in.Need(1);
  if (more && std::string_view("{[\"").find(in[0]) != std::string_view::npos) {
    const std::optional<std::string> text = co_await ReadJsonText(in);
    co_return text.has_value();
  }
  std::string scalar;
  while (co_await in.Need(1) && !IsSpace(in[0]) && in[0] != ',' && in[0] != '}') {
    scalar += in.Take(1);
  }
  co_return IsJsonScalar(scalar);
}

bool IsArgumentsKey(std::string_view key) { return key == "arguments" || key == "parameters"; }

// The object of one call on its way.
struct CallObject {
  std::string name{};
  std::string id{};
  std::optional<std::string> arguments{};  // read before the name was known
  bool begun = false;                      // in the output
};

// The arguments as text, which is an object; nothing when they are something else.
Task<std::optional<std::string>> ReadHeldArguments(Scanner& in) {
  const bool is_object = co_await in.Sees("{");
  if (is_object) {
    co_return co_await ReadJsonText(in);
  }
  const bool is_null = co_await in.Accept("null");
  if (is_null) {
    co_return "{}";
  }
  std::optional<std::string> text = co_await ReadString(in);
  if (text && text->empty()) {
    co_return "{}";
  }
  const Result<Json> value = text ? ParseJson(*text) : Fail(ErrorCode::kInvalidRequest, "");
  co_return value && value->is_object() ? std::move(text) : std::nullopt;
}

// The value behind `key`. False: this is no call, or what there is of it ends here.
Task<bool> ReadMember(CallContext& context, CallObject& call, const std::string& key) {
  Scanner& in = context.in;
  if (key == "name" || key == "function") {
    const bool nested = key == "function" && co_await in.Sees("{");
    if (nested) {
      call.begun = co_await ReadJsonCall(context);
      co_return call.begun;
    }
    std::optional<std::string> name = co_await ReadString(in);
    if (!name || context.Tool(*name) == nullptr) {
      co_return false;
    }
    call.name = std::move(*name);
    co_return true;
  }
  if (IsArgumentsKey(key)) {
    const bool is_object = co_await in.Sees("{");
    if (is_object && !call.name.empty()) {
      context.out.BeginCall(call.name, call.id);
      call.begun = true;
      co_return co_await StreamJsonArguments(context);
    }
    call.arguments = co_await ReadHeldArguments(in);
    co_return call.arguments.has_value();
  }
  if (key == "id") {
    const bool is_string = co_await in.Sees("\"");
    if (is_string) {
      std::optional<std::string> id = co_await ReadString(in);
      call.id = std::move(id).value_or("");
      co_return id.has_value();
    }
    co_return co_await SkipValue(in);
  }
  if (key == "type" || call.begun) {
    co_return co_await SkipValue(in);
  }
  co_return false;
}

// Whether the object was read to its end.
Task<bool> ReadMembers(CallContext& context, CallObject& call) {
  Scanner& in = context.in;
  const bool opens = co_await in.Accept("{");
  if (!opens) {
    co_return false;
  }
  while (true) {
    co_await in.SkipSpace();
    const bool closes = co_await in.Accept("}");
    if (closes) {
      co_return true;
    }
    (void)co_await in.Accept(",");
    co_await in.SkipSpace();
    const std::optional<std::string> key = co_await ReadString(in);
    if (!key) {
      co_return false;
    }
    co_await in.SkipSpace();
    const bool colon = co_await in.Accept(":");
    if (!colon) {
      co_return false;
    }
    co_await in.SkipSpace();
    const bool good = co_await ReadMember(context, call, *key);
    if (!good) {
      co_return false;
    }
  }
}

}  // namespace

Task<bool> StreamJsonArguments(CallContext& context) {
  Scanner& in = context.in;
  JsonScan scan;
  std::string fragment;
  while (true) {
    if (in.available() == 0) {
      context.out.Arguments(std::exchange(fragment, {}));
      in.Commit();
      const bool more = co_await in.Need(1);
      if (!more) {
        co_return false;
      }
    }
    const JsonScan::Result result = scan.Push(in[0], fragment);
    if (result != JsonScan::Result::kBad) {
      in.Take(1);
    }
    if (result != JsonScan::Result::kMore) {
      context.out.Arguments(fragment);
      co_return result == JsonScan::Result::kDone;
    }
  }
}

Task<bool> ReadNamedCall(CallContext& context, std::string name, std::string id) {
  co_await context.in.SkipSpace();
  const bool is_object = co_await context.in.Sees("{");
  if (!is_object) {
    co_return false;
  }
  context.out.BeginCall(std::move(name), std::move(id));
  (void)co_await StreamJsonArguments(context);
  context.out.EndCall();
  co_return true;
}

Task<bool> ReadJsonCall(CallContext& context) {
  CallObject call;
  const bool whole = co_await ReadMembers(context, call);
  if (call.begun) {
    context.out.EndCall();
    co_return true;
  }
  if (!whole && !call.name.empty() && context.cut) {
    const bool more = co_await context.in.Need(1);
    if (!more) {  // its arguments were still to come, or not all of them had
      context.out.BeginCall(call.name, call.id);
      context.out.EndCall(/*whole=*/false);
      co_return true;
    }
  }
  if (!whole || call.name.empty()) {
    co_return false;
  }
  context.out.BeginCall(call.name, call.id);
  context.out.Arguments(call.arguments.value_or("{}"));
  context.out.EndCall();
  co_return true;
}

Task<bool> ReadJsonCalls(CallContext& context) {
  Scanner& in = context.in;
  co_await in.SkipSpace();
  const bool is_list = co_await in.Accept("[");
  if (!is_list) {
    co_return co_await ReadJsonCall(context);
  }
  bool any = false;
  while (true) {
    co_await in.SkipSpace();
    const std::size_t mark = in.Mark();
    (void)co_await in.Accept(",");
    co_await in.SkipSpace();
    const bool called = co_await ReadJsonCall(context);
    if (!called) {
      in.Rewind(mark);
      break;
    }
    in.Commit();
    any = true;
  }
  if (any) {
    (void)co_await in.Accept("]");
  }
  co_return any;
}

Task<bool> ReadWrappedJsonCalls(CallContext& context, std::string_view closer) {
  const bool called = co_await ReadJsonCalls(context);
  if (called) {
    (void)co_await context.in.AcceptAfterSpace(closer);
  }
  co_return called;
}

}  // namespace parsers
