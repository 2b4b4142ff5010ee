#include "nfs/v4/state/stable/stream_store.h"

#include <map>
#include <mutex>

namespace penstock::nfs::v4 {

using sess01::StreamId;

struct MemoryStreamStore::Shared {
  // In place of SavedBoundSession: its storage would keep the sessions alive.
  struct Saved {
    BoundSessionRecord session;
    ChannelBlock channels{};
    std::vector<std::optional<StreamRecord>> streams{};
  };
  std::mutex mutex;
  std::map<uint64_t, Saved> sessions;
};

class MemoryStreamStore::Session : public StreamStorage {
 public:
  Session(std::shared_ptr<Shared> shared, uint64_t id) : shared_(std::move(shared)), id_(id) {}

  bool Begin(StreamId stream, const StreamRecord& request, bool /*lasting*/) override { return Set(stream, request); }
  bool Keep(StreamId stream, const StreamRecord& request, bool /*lasting*/) override { return Set(stream, request); }
  bool Reserve(const ChannelBlock& channels) override {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->sessions.find(id_);
    if (found == shared_->sessions.end()) return false;
    found->second.channels.Add(channels);
    return true;
  }
  bool Remove(bool /*lasting*/) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->sessions.erase(id_);
    return true;
  }

 private:
  bool Set(StreamId stream, const StreamRecord& request) {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->sessions.find(id_);
    if (found == shared_->sessions.end()) return false;
    found->second.streams.at(stream.value()) = request;
    return true;
  }

  const std::shared_ptr<Shared> shared_;
  const uint64_t id_;
};

MemoryStreamStore::MemoryStreamStore() : shared_(std::make_shared<Shared>()) {}
MemoryStreamStore::~MemoryStreamStore() = default;

std::vector<SavedBoundSession> MemoryStreamStore::Load() {
  const std::lock_guard lock(shared_->mutex);
  std::vector<SavedBoundSession> loaded;
  for (const auto& [id, saved] : shared_->sessions) {
    loaded.push_back({.session = saved.session,
                      .channels = saved.channels,
                      .streams = saved.streams,
                      .storage = std::make_shared<Session>(shared_, id)});
  }
  return loaded;
}

std::shared_ptr<StreamStorage> MemoryStreamStore::Create(const BoundSessionRecord& session) {
  const std::lock_guard lock(shared_->mutex);
  auto& saved = shared_->sessions[session.id];
  saved = {.session = session};
  saved.streams.resize(session.streams);
  return std::make_shared<Session>(shared_, session.id);
}

}  // namespace penstock::nfs::v4
