#include "nfs/v4/state/stable/reply_store.h"

#include <map>
#include <mutex>

namespace penstock::nfs::v4 {

struct MemoryReplyStore::Shared {
  std::mutex mutex;
  std::map<SessionId, std::vector<std::optional<KeptReply>>> sessions;
};

class MemoryReplyStore::Session : public SessionReplies {
 public:
  Session(std::shared_ptr<Shared> shared, const SessionId& id) : shared_(std::move(shared)), id_(id) {}

  bool Keep(SlotId slot, const KeptReply& reply, bool /*lasting*/) override {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->sessions.find(id_);
    if (found == shared_->sessions.end()) return false;
    found->second.at(slot.value()) = reply;
    return true;
  }
  void Remove() override {
    const std::lock_guard lock(shared_->mutex);
    shared_->sessions.erase(id_);
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const SessionId id_;
};

MemoryReplyStore::MemoryReplyStore() : shared_(std::make_shared<Shared>()) {}
MemoryReplyStore::~MemoryReplyStore() = default;

std::vector<SavedSession> MemoryReplyStore::Load() {
  const std::lock_guard lock(shared_->mutex);
  std::vector<SavedSession> saved;
  for (const auto& [id, slots] : shared_->sessions) {
    saved.push_back({.id = id, .slots = slots, .storage = std::make_shared<Session>(shared_, id)});
  }
  return saved;
}

std::shared_ptr<SessionReplies> MemoryReplyStore::Create(const SessionId& session, const ReplyRoom& room) {
  const std::lock_guard lock(shared_->mutex);
  shared_->sessions[session].resize(room.slots);
  return std::make_shared<Session>(shared_, session);
}

}  // namespace penstock::nfs::v4
