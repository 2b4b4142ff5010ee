#include "library/place.h"

#include <utility>

#include "base/thread.h"

namespace penstock::library {
namespace {

// The runtime whose loop this thread runs.
thread_local const void* runtime_of_thread = nullptr;

}  // namespace

Place::Place(const void* runtime, bool is_driven, std::shared_ptr<log::Logger> logger)
    : runtime_(runtime), logger_(std::move(logger)) {
  if (is_driven) {
    driven_.emplace(loop_);
    return;
  }
  const auto run = [this] {
    runtime_of_thread = runtime_;
    loop_.Run();
  };
  thread_ = StartThread("penstock-loop", run, logger_);
}

Place::~Place() {
  Finish();
  const log::ThreadLoggerScope scope(logger_);
  providers_ = {};
}

rdma::Provider& Place::ProviderFor(bool crc, const std::function<std::unique_ptr<rdma::Provider>()>& make) {
  std::unique_ptr<rdma::Provider>& provider = providers_[crc ? 1 : 0];
  if (!provider) provider = make();
  return *provider;
}

void Place::Finish() {
  if (std::exchange(has_finished_, true)) return;
  loop_.Post([this] { Spawn(FinishAfterWorks()); });
  if (driven_) {
    const log::ThreadLoggerScope scope(logger_);
    driven_->Finish();
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

Task<void> Place::FinishAfterWorks() {
  co_await WaitUntilQuiet(loop_, activity);
  loop_.Finish();
}

bool Place::RunsHere() const { return driven_ ? driven_->running() : runtime_of_thread == runtime_; }

}  // namespace penstock::library
