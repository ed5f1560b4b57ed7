#include "parsers/shared_tagged_call.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "parsers/shared_json_scan.h"
#include "parsers/shared_typed_value.h"

namespace parsers {
namespace {

// The text before `closer`, which is read too; without one, the text before a line break or a tag.
Task<std::optional<std::string>> ReadName(Scanner& in, std::string_view closer) {
  std::string name;
  while (co_await in.Need(1) && name.size() < kMaxName) {
    const bool closes = !closer.empty() && co_await in.Accept(closer);
    if (closes) {
      co_return name;
    }
    if (in[0] == '\n' || in[0] == '<') {
      co_return closer.empty() ? std::optional(std::string(Trimmed(name))) : std::nullopt;
    }
    name += in.Take(1);
  }
  co_return std::nullopt;
}

// One call on its way.
class TaggedCall {
 public:
  TaggedCall(CallContext& context, const CallTags& tags, const chat::ToolSpec& tool)
      : context_(context), in_(context.in), tags_(tags), tool_(tool) {}

  // Behind the name. Whether a call follows it.
  Task<bool> Read() {
    co_await in_.SkipSpace();
    (void)co_await in_.Accept(tags_.value_closer);  // a stray one
    co_await in_.SkipSpace();
    const bool has_parameter = co_await in_.Sees(tags_.parameter_opener);
    const bool closes = !has_parameter && co_await in_.Sees(tags_.call_closer);
    if (!has_parameter && !closes) {
      co_return false;
    }
    context_.out.BeginCall(tool_.name);
    context_.out.Arguments("{");
    const bool whole = co_await ReadParameters();
    if (whole) {
      context_.out.Arguments("}");
    }
    context_.out.EndCall();
    co_return true;
  }

 private:
  // Whether every parameter was read to its end and no more come.
  Task<bool> ReadParameters() {
    while (true) {
      co_await in_.SkipSpace();
      const bool closes = co_await in_.Accept(tags_.call_closer);
      if (closes) {
        co_return true;
      }
      const bool has_parameter = co_await in_.Accept(tags_.parameter_opener);
      if (!has_parameter) {
        const bool more = co_await in_.Need(1);
        co_return more || !context_.cut;
      }
      const bool good = co_await ReadParameter();
      if (!good) {
        co_return false;
      }
      in_.Commit();
    }
  }

  Task<bool> ReadParameter() {
    const std::optional<std::string> name = co_await ReadName(in_, tags_.parameter_closer);
    if (!name) {
      co_return false;
    }
    std::string attributes;
    if (tags_.attributes) {
      const std::size_t end = co_await in_.Find(">");
      if (end == std::string_view::npos) {
        co_return false;
      }
      attributes = in_.Take(end + 1);
    }
    if (!tags_.value_opener.empty()) {
      co_await in_.SkipSpace();
      const bool opens = co_await in_.Accept(tags_.value_opener);
      if (!opens) {
        co_return false;
      }
    }
    schema_ = PropertySchema(tool_.parameters, *name);
    const bool says_string = attributes.find("string=\"true\"") != std::string::npos;
    const bool says_json = attributes.find("string=\"false\"") != std::string::npos;
    streams_ = says_string || (!says_json && IsStringOnly(schema_));
    context_.out.Arguments((seen_.empty() ? "\"" : ", \"") + JsonEscaped(*name) +
                           "\": " + (streams_ ? "\"" : ""));
    seen_.push_back(*name);
    const bool closed = co_await ReadValue();
    if (!closed) {
      co_return false;
    }
    if (streams_) {
      context_.out.Arguments("\"");
    } else if (says_json && schema_ == nullptr) {
      const Result<Json> json = ParseJson(held_);
      context_.out.Arguments(DumpJson(json ? *json : Json(held_)));
    } else {
      context_.out.Arguments(TypedJson(held_, schema_));
    }
    held_.clear();
    co_return true;
  }

  // Up to and including what closes it. False: the text ended inside.
  Task<bool> ReadValue() {
    held_newline_ = false;
    if (tags_.newlines_belong_to_tags) {
      held_newline_ = co_await in_.Accept("\n");
    }
    bool at_begin = std::exchange(held_newline_, false);
    while (co_await in_.Need(1)) {
      const std::string_view text = in_.Peek(in_.available());
      const std::size_t run = std::min(text.find_first_of("<\n"), text.size());
      if (run > 0) {
        Put(in_.Take(run));
        at_begin = false;
        in_.Commit();
        continue;
      }
      if (in_[0] == '\n') {
        in_.Take(1);
        if (tags_.newlines_belong_to_tags) {
          Put("");
          held_newline_ = true;
        } else {
          Put("\n");
        }
        continue;
      }
      const bool closed = co_await ValueEndsHere(held_newline_ || at_begin);
      if (closed) {
        co_return true;
      }
      Put(in_.Take(1));
      at_begin = false;
    }
    co_return false;
  }

  // At a "<": reads the value's closer where it is one.
  Task<bool> ValueEndsHere(bool at_line_start) {
    const std::size_t mark = in_.Mark();
    const bool accepted = co_await in_.Accept(tags_.value_closer);
    if (accepted) {
      co_await in_.SkipSpace();
      const bool more = co_await in_.Need(1);
      const bool ends_call = more && co_await in_.Sees(tags_.call_closer);
      const bool ends_value = more && !ends_call && co_await in_.Sees(tags_.parameter_opener);
      if (!more || ends_call || ends_value) {
        co_return true;
      }
      in_.Rewind(mark);
      co_return false;
    }
    if (!tags_.call_closer_ends_value || !at_line_start) {
      co_return false;
    }
    const bool ends_call = co_await in_.Sees(tags_.call_closer);
    if (ends_call) {
      co_return true;
    }
    const bool opens = co_await in_.Accept(tags_.parameter_opener);
    if (opens) {
      const std::optional<std::string> name = co_await ReadName(in_, tags_.parameter_closer);
      in_.Rewind(mark);
      co_return name&& PropertySchema(tool_.parameters, *name) !=
          nullptr&& std::ranges::find(seen_, *name) == seen_.end();
    }
    co_return false;
  }

  // A piece of the value, after the line break that was held back.
  void Put(std::string_view text) {
    std::string piece = std::exchange(held_newline_, false) ? "\n" : "";
    piece += text;
    if (streams_) {
      context_.out.Arguments(JsonEscaped(piece));
    } else {
      held_ += piece;
    }
  }

  CallContext& context_;
  Scanner& in_;
  const CallTags& tags_;
  const chat::ToolSpec& tool_;
  std::vector<std::string> seen_;  // names of the parameters so far
  const Json* schema_ = nullptr;   // of the present one
  bool streams_ = false;
  std::string held_;  // its value, where it does not stream
  bool held_newline_ = false;
};

}  // namespace

Task<bool> ReadTaggedCall(CallContext& context, const CallTags& tags) {
  const bool opens = co_await context.in.Accept(tags.name_opener);
  if (!opens) {
    co_return false;
  }
  const std::optional<std::string> name = co_await ReadName(context.in, tags.name_closer);
  const chat::ToolSpec* tool = name ? context.Tool(*name) : nullptr;
  if (tool == nullptr) {
    co_return false;
  }
  TaggedCall call(context, tags, *tool);
  co_return co_await call.Read();
}

Task<bool> ReadWrappedCall(CallContext& context, const CallTags& tags, std::string_view closer) {
  co_await context.in.SkipSpace();
  const bool called = co_await ReadTaggedCall(context, tags);
  if (called) {
    (void)co_await context.in.AcceptAfterSpace(closer);
  }
  co_return called;
}

Task<bool> ReadWrappedCalls(CallContext& context, const CallTags& tags, std::string_view closer) {
  bool any = false;
  while (true) {
    const std::size_t mark = context.in.Mark();
    co_await context.in.SkipSpace();
    const bool called = co_await ReadTaggedCall(context, tags);
    if (!called) {
      context.in.Rewind(mark);
      break;
    }
    context.in.Commit();
    any = true;
  }
  if (any) {
    (void)co_await context.in.AcceptAfterSpace(closer);
  }
  co_return any;
}

}  // namespace parsers
