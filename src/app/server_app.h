#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/served_model.h"
#include "app/kernel_choice.h"
#include "app/load_model.h"
#include "app/options.h"
#include "base/clock.h"
#include "http/api_handler.h"
#include "http/server.h"

namespace app {

// The whole server: a model with its engine thread, the protocols, and HTTP in front. Made in that
// order, stopped in reverse.
class ServerApp final : public api::ModelManager {
 public:
  // Loads the model and listens. `quiet`: no progress on stderr. Errors: one sentence.
  [[nodiscard]] static Result<std::unique_ptr<ServerApp>> Start(const ServeOptions& options,
                                                                const KernelChoice& kernels,
                                                                bool quiet);
  ~ServerApp() override;

  [[nodiscard]] Result<api::ServedModel*> Find(const std::string& name) override;
  [[nodiscard]] std::vector<api::ServedModel*> Models() override;

  // "http://127.0.0.1:8000"
  [[nodiscard]] std::string address() const;
  // What a person should know once it runs, several lines.
  [[nodiscard]] std::string Banner() const;

  // Takes no new requests, lets those that run end within `patience`, cancels the rest.
  void Drain(std::chrono::seconds patience);

 private:
  ServerApp(ServeOptions options, const KernelChoice& kernels);

  ServeOptions options_;
  KernelChoice kernels_;
  SystemClock clock_;
  std::unique_ptr<FileSystem> files_ = MakeOsFileSystem();
  LoadedModel model_;
  std::unique_ptr<http::ApiHandler> handler_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace app
