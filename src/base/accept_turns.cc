#include "base/accept_turns.h"

#include <algorithm>
#include <utility>

namespace penstock {

AcceptTurns::Member::Member(std::shared_ptr<AcceptTurns> all, Loop& loop, std::function<void()> on_turn)
    : all_(std::move(all)), loop_(loop), call_(std::make_shared<Call>(std::move(on_turn))) {}

AcceptTurns::Member::~Member() {
  call_->on_turn = nullptr;
  const std::lock_guard lock(all_->mutex_);
  std::vector<Member*>& members = all_->members_;
  const auto place = static_cast<size_t>(std::ranges::find(members, this) - members.begin());
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(place));
  const bool had_turn = place == all_->turn_;
  if (place < all_->turn_) --all_->turn_;
  if (all_->turn_ == members.size()) all_->turn_ = 0;
  if (had_turn && !members.empty()) all_->TellNext();
}

bool AcceptTurns::Member::HasTurn() const {
  const std::lock_guard lock(all_->mutex_);
  return all_->members_[all_->turn_] == this;
}

void AcceptTurns::Member::EndTurn() {
  const std::lock_guard lock(all_->mutex_);
  all_->turn_ = (all_->turn_ + 1) % all_->members_.size();
  if (all_->members_[all_->turn_] != this) all_->TellNext();
}

std::unique_ptr<AcceptTurns::Member> AcceptTurns::Join(Loop& loop, std::function<void()> on_turn) {
  std::unique_ptr<Member> member(new Member(shared_from_this(), loop, std::move(on_turn)));
  const std::lock_guard lock(mutex_);
  members_.push_back(member.get());
  return member;
}

void AcceptTurns::TellNext() {
  Member& next = *members_[turn_];
  if (std::exchange(next.call_->posted, true)) return;
  next.loop_.Post([all = shared_from_this(), call = next.call_] {
    {
      const std::lock_guard lock(all->mutex_);
      call->posted = false;
    }
    // The member may be destroyed before the loop runs this.
    if (const auto on_turn = call->on_turn) on_turn();
  });
}

}  // namespace penstock
