#include "app/chat_command.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "app/chat_session.h"
#include "app/kernel_choice.h"
#include "app/line_reader.h"
#include "app/print.h"
#include "app/server_app.h"
#include "base/log.h"

namespace app {
namespace {

constexpr std::string_view kHelp =
    "/reset  forget the talk so far\n"
    "/stats  tokens and speed of the last reply\n"
    "/quit   end (so do Ctrl-D, and Ctrl-C twice)\n"
    "/help   this list\n"
    "Ctrl-C stops a reply.\n";

int Complain(const Error& error) {
  PrintTo(stderr, "emberbank: {}\n", error.message);
  return 1;
}

// A server of our own, on a free port of this machine.
Result<std::unique_ptr<ServerApp>> StartServer(const ChatOptions& options) {
  const Result<KernelChoice> kernels = ChooseKernels(ProcessEnvironment(), options.threads);
  if (!kernels) {
    return Fail(kernels.error());
  }
  ServeOptions serve;
  serve.model = options.model;
  serve.port = 0;
  serve.context_length = options.context_length;
  if (!options.api_key.empty()) {
    serve.api_keys = {options.api_key};
  }
  return ServerApp::Start(serve, *kernels, /*quiet=*/false);
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Answer(ChatSession& session, LineReader& reader, const std::string& text) {
  [[maybe_unused]] const bool before = reader.TakeInterrupt();
  const Result<void> said = session.Say(text, &Print, [&reader, stopped = false]() mutable {
    stopped = stopped || reader.TakeInterrupt();
    return stopped;
  });
  Print("\n");
  if (!said) {
    PrintTo(stderr, "emberbank: {}\n", said.error().message);
  }
}

// One typed line. False: the talk ends.
bool Handle(ChatSession& session, LineReader& reader, const std::string& text) {
  if (text == "/quit" || text == "/exit") {
    return false;
  }
  if (text == "/reset") {
    session.Reset();
    Print("The talk begins anew.\n");
  } else if (text == "/stats") {
    Print(session.Stats() + "\n");
  } else if (text == "/help") {
    Print(kHelp);
  } else if (text.starts_with('/')) {
    Print(fmt::format("There is no command {}; /help lists them.\n", text));
  } else if (text.find_first_not_of(" \t") != std::string::npos) {
    Answer(session, reader, text);
  }
  return true;
}

void Talk(ChatSession& session) {
  LineReader reader;
  if (reader.is_terminal()) {
    Print(fmt::format("Talking to {}. /help lists the commands.\n", session.model()));
  }
  bool was_interrupted = false;
  while (true) {
    const LineReader::Line line = reader.Next();
    if (line.outcome == LineReader::Outcome::kInterrupted && !was_interrupted) {
      Print("\nOnce more, or /quit, to end.\n");
      was_interrupted = true;
      continue;
    }
    if (line.outcome != LineReader::Outcome::kLine) {
      break;
    }
    was_interrupted = false;
    if (!Handle(session, reader, line.text)) {
      break;
    }
  }
  if (reader.is_terminal()) {
    Print("\n");
  }
}

}  // namespace

int RunChatCommand(const ChatOptions& options) {
  [[maybe_unused]] const bool known = SetUpLogging("warning");
  std::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<ServerApp> server;
  std::string address = options.url;
  if (address.empty()) {
    Result<std::unique_ptr<ServerApp>> started = StartServer(options);
    if (!started) {
      return Complain(started.error());
    }
    server = std::move(*started);
    address = server->address();
  }
  const Result<ServerUrl> url = ParseServerUrl(address);
  if (!url) {
    return Complain(url.error());
  }
  ChatSession session(*url, options);
  if (const Result<void> connected = session.Connect(); !connected) {
    return Complain(connected.error());
  }
  Talk(session);
  return 0;
}

}  // namespace app
