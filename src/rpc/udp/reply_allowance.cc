#include "rpc/udp/reply_allowance.h"

#include <algorithm>

#include "base/host.h"

namespace penstock::rpc::udp {

bool ReplyAllowance::Spend(const IpAddress& host, size_t call, size_t reply, TimePoint now) {
  if (reply <= call) return true;
  const auto time_for = [this](size_t octets) {
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(static_cast<double>(octets) / static_cast<double>(limits_.octets_per_second)));
  };
  const std::string text = HostOf(host).to_string();
  TimePoint& paid_until = (*paid_until_)[SipHash(key_, AsBytes(text)) % kPlaces];
  const TimePoint next = std::max(paid_until, now) + time_for(reply - call);
  if (next - now > time_for(limits_.burst)) return false;
  paid_until = next;
  return true;
}

}  // namespace penstock::rpc::udp
