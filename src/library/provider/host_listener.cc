#include "library/provider/host_listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/address_text.h"
#include "library/provider/host_loop.h"

namespace penstock::library {

SetupResult<void> HostListener::Listen(const SocketAddress& address, uint64_t member, std::shared_ptr<HostLoop> loop) {
  // The host may tell of peers before its function has returned.
  Join(member, std::move(loop));
  host_.Register(number_, shared_from_this());
  std::array<char, 64> actual{};
  const std::string asked = ToText(address);
  void* pointer = nullptr;
  int error = host_.Call("listen", host_.ops().listen, host_.self(), number_, asked.c_str(), actual.data(),
                         actual.size(), &pointer);
  if (error == 0) pointer_ = pointer;
  if (error == 0 && !pointer) {
    host_.Blame("listen", "has given no listener");
    error = EIO;
  }
  const auto local = ParseSocketAddress(std::string(actual.data(), ::strnlen(actual.data(), actual.size())));
  if (error == 0 && (!local || local->port() == 0)) {
    host_.Blame("listen", "has given no address with a port");
    error = EIO;
  }
  if (error == 0) {
    local_ = *local;
    return {};
  }
  Leave(member);
  return std::unexpected(SetupError{
      fmt::format("the provider {} cannot listen at {}: {}", host_.properties().name, asked, DescribeErrno(error)),
      error});
}

bool HostListener::Join(uint64_t member, std::shared_ptr<HostLoop> loop) {
  const std::lock_guard lock(mutex_);
  if (pointer_ && members_.empty()) return false;
  members_.push_back({member, std::move(loop)});
  return true;
}

void HostListener::Leave(uint64_t member) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(members_, [&](const Member& each) { return each.number == member; });
    if (!members_.empty()) return;
  }
  const std::shared_ptr<HostListener> self = shared_from_this();
  host_.Forget(number_);
  if (pointer_) host_.Call("stop_listening", host_.ops().stop_listening, pointer_);
}

int HostListener::Request(void* endpoint, std::unique_ptr<PeerFacts> peer, uint64_t& connection) {
  // A place among the waiting peers, until the request is answered.
  if (waiting_->fetch_add(1) >= kMostWaiting) {
    --*waiting_;
    return EAGAIN;
  }
  std::shared_ptr<void> place(nullptr, [waiting = waiting_](void*) { --*waiting; });
  const std::lock_guard lock(mutex_);
  if (members_.empty()) return ENOENT;
  const Member& member = members_[next_++ % members_.size()];
  const uint64_t number = HostProvider::NewNumber();
  connection = number;
  host_.Register(number, member.loop);
  Event event{.connection = number,
              .what = Event::Requested{
                  .listener = member.number, .endpoint = endpoint, .peer = std::move(peer), .place = std::move(place)}};
  if (member.loop->Put(std::move(event))) return 0;
  host_.Forget(number);
  return ENOENT;
}

}  // namespace penstock::library
