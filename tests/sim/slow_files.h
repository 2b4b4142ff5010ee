// The server's files: they take their time, and they fail. Before each operation and after it others have their turn, so that
// a call is met in the midst of its execution by whatever may happen then.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include "base/task.h"
#include "fs/forwarding_files.h"
#include "rdma/sim/world.h"

namespace penstock::simulation {

struct FileFaults {
  Duration max_delay{};  // before an operation, and after it
  double fails = 0;      // the chance of an operation to fail, not done, as a disk does that is full or has a bad block
};

class SlowFiles final : public fs::ForwardingFiles {
 public:
  SlowFiles(std::shared_ptr<fs::FileSystem> files, rdma::sim::World& world, const FileFaults& faults)
      : ForwardingFiles(std::move(files)), world_(world), faults_(faults) {}

  // Brings what is under way to its end at once, and takes no time from now on, or as before again.
  void Hurry() {
    hurried_ = true;
    while (!waiting_.empty()) waiting_.front()->Set();
  }
  void TakeTime() { hurried_ = false; }

 private:
  Task<std::optional<fs::Error>> Before(fs::FileOperation operation) override {
    co_await Dawdle();
    co_return DrawError(operation);
  }
  Task<std::optional<fs::Error>> After(fs::FileOperation) override {
    co_await Dawdle();
    co_return std::nullopt;
  }

  // What moves data fails; the rest is needed to find one's way.
  std::optional<fs::Error> DrawError(fs::FileOperation operation) {
    if (faults_.fails == 0) return std::nullopt;
    using enum fs::FileOperation;
    const bool writes = operation == kWrite || operation == kCommit;
    if ((!writes && operation != kRead) || !world_.random().Chance(faults_.fails)) return std::nullopt;
    if (!writes) return fs::Error::kIo;
    constexpr std::array kErrors{fs::Error::kIo, fs::Error::kNoSpace, fs::Error::kQuota};
    return kErrors[world_.random().Below(kErrors.size())];
  }

  Task<void> Dawdle() {
    if (hurried_ || faults_.max_delay == Duration::zero() || !world_.random().Chance(0.3)) co_return;
    OneShot<> over;
    const auto timer = world_.MakeTimer([&over] { over.Set(); });
    timer->ExpireAfter(world_.random().UpTo(faults_.max_delay));
    const auto place = waiting_.insert(waiting_.end(), &over);
    co_await over;
    waiting_.erase(place);
  }

  rdma::sim::World& world_;
  const FileFaults faults_;
  bool hurried_ = false;
  std::list<OneShot<>*> waiting_;
};

}  // namespace penstock::simulation
