#include "client/nfs4/sess01/callback_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace penstock::client::v4::sess01 {

using nfs4::nfsstat4;

void CallbackTable::HandleBound(uint32_t channel, uint32_t requests) {
  std::erase_if(channels_, [&](const Channel& each) { return each.number == channel; });
  if (channels_.size() == kRemembered) channels_.pop_front();
  channels_.push_back({channel, std::vector<Stream>(requests)});
}

CallbackTable::Channel* CallbackTable::Find(uint32_t number) {
  const auto found = std::ranges::find(channels_, number, &Channel::number);
  return found == channels_.end() ? nullptr : &*found;
}

CallbackTable::Start CallbackTable::HandleCall(uint32_t own, uint32_t named, uint32_t stream, rpc::Xid xid) {
  const auto refuse = [](nfsstat4 status) { return Start{Outcome::kRefused, status}; };
  Channel* const channel = Find(named);
  if (!channel || named > own) return refuse(nfsstat4::NFS4ERR_SESS01_BADCHANNEL);
  if (stream >= channel->streams.size()) return refuse(nfsstat4::NFS4ERR_SESS01_BADSTREAM);
  Stream& used = channel->streams[stream];
  if (used.state != Stream::State::kUnused && used.xid == xid) {
    if (used.state == Stream::State::kRunning) return {Outcome::kWait};
    return {Outcome::kReplay, nfsstat4::NFS4_OK, &used.results};
  }
  if (used.state == Stream::State::kRunning) return refuse(nfsstat4::NFS4ERR_SESS01_STREAM_INUSE);
  used = {.state = Stream::State::kRunning, .xid = xid};
  return {};
}

void CallbackTable::Finish(uint32_t named, uint32_t stream, xdr::Message results) {
  Channel* const channel = Find(named);
  if (!channel || stream >= channel->streams.size()) return;  // the session has ended, or the client has forgotten it
  Stream& used = channel->streams[stream];
  if (used.state != Stream::State::kRunning) return;
  used.state = Stream::State::kAnswered;
  used.results = std::move(results);
}

}  // namespace penstock::client::v4::sess01
