#include "nfs/nlm/host_requests.h"

#include <algorithm>
#include <ranges>

namespace penstock::nfs::nlm {

HostRequests::Request::Request(HostRequests& all, const v4::LockHostName& host, std::string owner,
                               const NamedFile& file)
    : all_(all), file_(file) {
  of_owner_ = all_.by_owner_.try_emplace(Key{host, std::move(owner)}).first;
  std::list<Request*>& queue = of_owner_->second;
  for (Request* const earlier : std::views::reverse(queue)) {
    if (earlier->is_void_ || earlier->file_ != file_) continue;
    before_ = earlier;
    earlier->after_ = this;
    break;
  }
  place_ = queue.insert(queue.end(), this);
}

HostRequests::Request::~Request() {
  of_owner_->second.erase(place_);
  if (of_owner_->second.empty()) all_.by_owner_.erase(of_owner_);
  if (before_) before_->after_ = after_;
  if (!after_) return;
  after_->before_ = before_;
  if (!before_) {
    all_.LetGoOn(*after_);
    all_.ResumeReady();
  }
}

Task<> HostRequests::Request::Turn() {
  if (!before_) co_return;
  waits_ = true;
  co_await turn_;
}

void HostRequests::LetGoOn(Request& request) {
  if (std::exchange(request.waits_, false)) ready_.push_back(&request);
}

// A request that ends resumes the next one. Without the queue, each would run within the one before.
void HostRequests::ResumeReady() {
  if (std::exchange(resuming_, true)) return;
  while (!ready_.empty()) {
    Request& next = *ready_.front();
    ready_.pop_front();
    next.turn_.Set();
  }
  resuming_ = false;
}

std::vector<v4::LockHostName> HostRequests::HostsAt(const IpAddress& address) const {
  std::vector<v4::LockHostName> hosts;
  for (auto each = by_owner_.lower_bound({{address, {}}, {}});
       each != by_owner_.end() && each->first.host.address == address; ++each) {
    if (hosts.empty() || hosts.back() != each->first.host) hosts.push_back(each->first.host);
  }
  return hosts;
}

void HostRequests::End(const std::vector<v4::LockHostName>& hosts) {
  for (const v4::LockHostName& host : hosts) {
    for (auto each = by_owner_.lower_bound({host, {}}); each != by_owner_.end() && each->first.host == host; ++each) {
      for (Request* const request : each->second) {
        request->is_void_ = true;
        request->before_ = request->after_ = nullptr;
        LetGoOn(*request);
      }
    }
  }
  ResumeReady();
}

}  // namespace penstock::nfs::nlm
