// A store of bound sessions that belongs to one run of the server. After the run is killed it changes nothing any more,
// although calls of that run still end. It can also kill the run itself, at the moments that matter for exactly-once
// semantics.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nfs/v4/state/stable/stream_store.h"

namespace penstock::simulation {

class DyingStreamStore final : public nfs::v4::StreamStore {
 public:
  // `store` outlives it and what it returns. `dies` is called between the name of a request and its execution, between
  // the execution and the kept reply, and after that. It returns true if the run is killed now.
  DyingStreamStore(nfs::v4::StreamStore& store, std::function<bool()> dies)
      : store_(store), run_(std::make_shared<Run>(std::move(dies))) {}

  std::vector<nfs::v4::SavedBoundSession> Load() override {
    std::vector<nfs::v4::SavedBoundSession> loaded = store_.Load();
    for (auto& session : loaded) session.storage = std::make_shared<Storage>(run_, std::move(session.storage));
    return loaded;
  }
  bool HasRoomFor(const nfs::v4::BoundSessionRecord& session) override { return store_.HasRoomFor(session); }
  std::shared_ptr<nfs::v4::StreamStorage> Create(const nfs::v4::BoundSessionRecord& session) override {
    if (run_->dead) return nullptr;
    auto storage = store_.Create(session);
    if (!storage) return nullptr;
    return std::make_shared<Storage>(run_, std::move(storage));
  }
  void Kill() { run_->dead = true; }

 private:
  struct Run {
    explicit Run(std::function<bool()> function) : dies(std::move(function)) {}
    bool Dies() { return dead = dead || dies(); }
    const std::function<bool()> dies;
    bool dead = false;
  };
  class Storage final : public nfs::v4::StreamStorage {
   public:
    Storage(std::shared_ptr<Run> run, std::shared_ptr<nfs::v4::StreamStorage> storage)
        : run_(std::move(run)), storage_(std::move(storage)) {}
    // A request whose run is dead must not be executed.
    bool Begin(nfs::v4::sess01::StreamId stream, const nfs::v4::StreamRecord& request, bool lasting) override {
      return !run_->dead && storage_->Begin(stream, request, lasting) && !run_->Dies();
    }
    bool Keep(nfs::v4::sess01::StreamId stream, const nfs::v4::StreamRecord& request, bool lasting) override {
      return !run_->Dies() && storage_->Keep(stream, request, lasting) && !run_->Dies();
    }
    bool Reserve(const nfs::v4::ChannelBlock& channels) override {
      return !run_->Dies() && storage_->Reserve(channels);
    }
    bool Remove(bool lasting) override { return !run_->dead && storage_->Remove(lasting); }

   private:
    const std::shared_ptr<Run> run_;
    const std::shared_ptr<nfs::v4::StreamStorage> storage_;
  };

  nfs::v4::StreamStore& store_;
  const std::shared_ptr<Run> run_;
};

}  // namespace penstock::simulation
