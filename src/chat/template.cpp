#include "chat/template.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "chat/control_text.h"
#include "chat/rust_call.h"
#include "chat/template_variables.h"
#include "chat/tools_as_text.h"

namespace chat {
namespace {

struct FreeTemplate {
  void operator()(EbTemplate* compiled) const { eb_template_free(compiled); }
};

// Stands behind the content of a message that is to be continued, to find in the rendered text
// where it ends. The name and the space are transformers' (chat_template_utils.py): templates see
// the same text.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

// One compiled template with what was found out about it.
struct Compiled {
  std::string source;
  std::unique_ptr<EbTemplate, FreeTemplate> rust;
  TemplateHabits habits;
  std::optional<ControlSets> controls;

  [[nodiscard]] Result<std::string> Render(const Json& variables) const {
    const std::string json = DumpJson(variables);
    RustBytes text;
    RustBytes error;
    bool raised = false;
    if (!eb_template_render(rust.get(), AsText(json), text.out(), &raised, error.out())) {
      return Fail(
          ErrorCode::kInvalidRequest,
          raised ? error.str()
                 : fmt::format("The model's chat template cannot render this conversation: {}.",
                               error.str()),
          "messages");
    }
    return text.str();
  }
};

// Do tool-call arguments have to be JSON text? A template that prints a mapping as it is gives
// Python's
// {'key': ...}; one that takes text only fails on a mapping.
bool TakesArgumentsAsText(const Compiled& compiled, const model_files::TokenizerFiles& files) {
  const Conversation probe = ProbeConversation();
  TemplateHabits habits = compiled.habits;
  const Result<std::string> mapping = compiled.Render(TemplateVariables(probe, habits, files));
  habits.arguments_as_text = true;
  const Result<std::string> text = compiled.Render(TemplateVariables(probe, habits, files));
  if (!mapping || !text) {
    return text.has_value();
  }
  const bool python_repr = mapping->find(fmt::format("'{}'", kProbeKey)) != std::string::npos;
  return python_repr && text->find(fmt::format("{{\"{}\"", kProbeKey)) != std::string::npos;
}

// Does the template print what is offered, or at least what was called? One that knows calls but no
// offers (DeepSeek V3's) is left as it is: its calls have a form of their own.
bool ShowsTools(const Compiled& compiled, const model_files::TokenizerFiles& files) {
  const Result<std::string> text =
      compiled.Render(TemplateVariables(ProbeConversation(), compiled.habits, files));
  return text && (text->find("A probe.") != std::string::npos ||
                  text->find("probe_value") != std::string::npos);
}

bool KnowsSystem(const Compiled& compiled, const model_files::TokenizerFiles& files) {
  Conversation probe;
  probe.messages = {{.role = Role::kSystem, .content = "probe_system"},
                    {.role = Role::kUser, .content = "Probe."}};
  const Result<std::string> text =
      compiled.Render(TemplateVariables(probe, compiled.habits, files));
  return text && text->find("probe_system") != std::string::npos;
}

Result<Compiled> Compile(std::string source, const model_files::TokenizerFiles& files,
                         const Tokenizer& tokenizer) {
  Compiled compiled{.source = std::move(source), .rust = nullptr, .habits = {}, .controls = {}};
  EbTemplate* rust = nullptr;
  RustBytes error;
  if (!eb_template_new(AsText(compiled.source), &rust, error.out())) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The model's chat template cannot be used: {}.", error.str()));
  }
  compiled.rust.reset(rust);
  compiled.habits.knows_developer = compiled.source.find("developer") != std::string::npos;
  compiled.habits.arguments_as_text = TakesArgumentsAsText(compiled, files);
  compiled.habits.shows_tools = ShowsTools(compiled, files);
  compiled.habits.knows_system = KnowsSystem(compiled, files);
  compiled.controls = ControlSetsOf(tokenizer, compiled.source);
  return compiled;
}

std::string_view TrimmedRight(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\n\r\f\v");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// Cuts what follows the message to continue; false when the template does not print it.
bool CutAfterFinalMessage(std::string& text) {
  const std::size_t at = text.rfind(TrimmedRight(kContinueTag));
  if (at == std::string::npos) {
    return false;
  }
  const bool spacing_kept = std::string_view(text).substr(at).starts_with(kContinueTag);
  text.erase(at);
  if (!spacing_kept) {
    text.erase(TrimmedRight(text).size());
  }
  return true;
}

}  // namespace

struct ChatTemplate::Impl {
  std::shared_ptr<const Tokenizer> tokenizer;
  model_files::TokenizerFiles special_tokens;  // only the special tokens' texts
  bool is_fallback = false;
  Compiled main;
  std::optional<Compiled> tool_use;

  [[nodiscard]] const Compiled& For(const Conversation& conversation) const {
    return !conversation.tools.empty() && tool_use.has_value() ? *tool_use : main;
  }

  [[nodiscard]] Result<std::string> RenderText(const Compiled& compiled, const Json& variables,
                                               bool continue_final) const {
    Result<std::string> text = compiled.Render(variables);
    if (text.has_value() && continue_final && !CutAfterFinalMessage(*text)) {
      return Fail(
          ErrorCode::kInvalidRequest,
          "The model's chat template does not print the final message, so it cannot be continued.",
          "continue_final_message");
    }
    return text;
  }

  // Where `text`, the plain rendering, has control tokens that a client wrote.
  [[nodiscard]] std::vector<Tokenizer::Span> ClientSpans(const Compiled& compiled,
                                                         std::string_view text,
                                                         const Json& variables,
                                                         bool continue_final) const {
    const MarkedVariables marks = MarkClientText(variables, *compiled.controls);
    if (marks.tokens.empty()) {
      return {};
    }
    const Result<std::string> marked = RenderText(compiled, marks.variables, continue_final);
    if (marked.has_value()) {
      if (auto spans = SpansBetweenMarks(text, *marked, marks); spans.has_value()) {
        return std::move(*spans);
      }
    }
    spdlog::debug(
        "special tokens in client text: not traceable through the template, all kept as text");
    return SpansOfTokens(text, marks.tokens);
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::Load(
    const model_files::TokenizerFiles& files, std::string_view fallback,
    std::shared_ptr<const Tokenizer> tokenizer) {
  auto impl = std::make_unique<Impl>();
  impl->special_tokens.bos_token = files.bos_token;
  impl->special_tokens.eos_token = files.eos_token;
  impl->special_tokens.unk_token = files.unk_token;
  impl->special_tokens.pad_token = files.pad_token;
  const auto named = files.named_templates.find("default");
  std::string source(fallback);
  if (files.chat_template.has_value()) {
    source = *files.chat_template;
  } else if (named != files.named_templates.end()) {
    source = named->second;
  } else {
    impl->is_fallback = true;
  }
  Result<Compiled> main = Compile(std::move(source), impl->special_tokens, *tokenizer);
  if (!main) {
    return Fail(main.error());
  }
  impl->main = std::move(*main);
  if (const auto tool_use = files.named_templates.find("tool_use");
      tool_use != files.named_templates.end()) {
    Result<Compiled> compiled = Compile(tool_use->second, impl->special_tokens, *tokenizer);
    if (!compiled) {
      return Fail(compiled.error());
    }
    impl->tool_use = std::move(*compiled);
  }
  impl->tokenizer = std::move(tokenizer);
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));  // NOLINT: private
}

bool ChatTemplate::is_fallback() const { return impl_->is_fallback; }

const std::string& ChatTemplate::source() const { return impl_->main.source; }

bool ChatTemplate::shows_tools() const {
  return impl_->main.habits.shows_tools ||
         (impl_->tool_use.has_value() && impl_->tool_use->habits.shows_tools);
}

Conversation ChatTemplate::Adapted(const Conversation& conversation) const {
  const TemplateHabits& habits = impl_->For(conversation).habits;
  return habits.shows_tools || !UsesTools(conversation)
             ? conversation
             : WithToolsAsText(conversation, habits.knows_system);
}

Result<RenderedText> ChatTemplate::RenderText(const Conversation& conversation,
                                              std::optional<std::int64_t> context_length) const {
  const Compiled& compiled = impl_->For(conversation);
  Json variables = TemplateVariables(conversation, compiled.habits, impl_->special_tokens);
  const bool continue_final = conversation.continue_final_message && !conversation.messages.empty();
  if (continue_final) {
    variables["messages"].back()["content"].get_ref<std::string&>() += kContinueTag;
  }
  Result<std::string> text = impl_->RenderText(compiled, variables, continue_final);
  if (!text) {
    return Fail(text.error());
  }
  if (context_length) {
    if (const Result<void> fits = impl_->tokenizer->CheckLength(*text, *context_length); !fits) {
      return Fail(fits.error());
    }
  }
  std::vector<Tokenizer::Span> spans =
      impl_->ClientSpans(compiled, *text, variables, continue_final);
  return RenderedText{.text = std::move(*text), .client_spans = std::move(spans)};
}

Result<RenderedPrompt> ChatTemplate::Render(const Conversation& conversation,
                                            std::optional<std::int64_t> context_length) const {
  Result<RenderedText> rendered = RenderText(conversation, context_length);
  if (!rendered) {
    return Fail(rendered.error());
  }
  Result<std::vector<TokenId>> tokens =
      impl_->tokenizer->EncodeWithPlainSpans(rendered->text, rendered->client_spans);
  if (!tokens) {
    return Fail(tokens.error());
  }
  return RenderedPrompt{.text = std::move(rendered->text), .tokens = std::move(*tokens)};
}

}  // namespace chat
