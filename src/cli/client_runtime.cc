#include "cli/client_runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "rdma/iwarp/provider.h"
#include "rdma/trace/provider.h"

namespace penstock::cli {

ClientRuntime::ClientRuntime(const std::string& trace) {
  if (!trace.empty()) trace_ = rdma::trace::File::Open(trace, rdma::trace::File::RealEpoch());
}
ClientRuntime::~ClientRuntime() { workers_.join(); }

Task<client::Result<std::unique_ptr<client::Mount>>> ClientRuntime::Mount(const client::Url& url) {
  rdma::iwarp::Options options;
  options.crc = url.crc;
  std::unique_ptr<rdma::Provider> provider = std::make_unique<rdma::iwarp::Provider>(loop_, options);
  if (*trace_) provider = std::make_unique<rdma::trace::Provider>(std::move(provider), **trace_, loop_);
  providers_.push_back(std::move(provider));
  return client::Mount::Open(loop_, workers_, url, {.retry = {}, .provider = providers_.back().get()});
}

int ClientRuntime::Run(Task<client::Result<void>> command) {
  if (!trace_) {
    PrintError(trace_.error().message);
    return 1;
  }
  std::optional<client::Result<void>> result;
  Spawn([](Task<client::Result<void>> task, Loop& loop, std::optional<client::Result<void>>& out) -> Task<void> {
    out.emplace(co_await std::move(task));
    // Connections that the command closed come to their end; none takes long.
    loop.Finish();
  }(std::move(command), loop_, result));
  loop_.Run();
  if (*result) return 0;
  PrintError(result->error().message);
  return 1;
}

void PrintError(const std::string& message) { fmt::print(stderr, "penstock: {}\n", message); }

}  // namespace penstock::cli
