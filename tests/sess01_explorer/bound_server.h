// A session of 2004 under exploration: StreamTable and Channels, used as BoundSessions uses them.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "nfs/v4/state/sess01/channels.h"
#include "nfs/v4/state/sess01/stream_table.h"
#include "server.h"

namespace penstock::explorer {

// The rules that the draft lacks. Without the first two, the server is the draft's to the letter.
struct Rules {
  enum class Stale : uint8_t {
    kNever,    // a retry that is not recognized is executed
    kRepeats,  // it is stale if its channel and streamid have had a retry before
    kAlways,   // it is stale
  };
  bool closes_named = true;  // a retry that names a live channel closes it before the retry is judged
  Stale stale = Stale::kRepeats;
  bool takes_back = true;  // a request that is not executed, because its channel is closed, is taken back
};

class BoundServer : public Server {
 public:
  BoundServer(uint32_t streams, bool keeps_replies, Rules rules) : streams_(streams, keeps_replies), rules_(rules) {}

  std::unique_ptr<Server> Clone() const override { return std::make_unique<BoundServer>(*this); }
  void Bind(int channel) override;
  void Lose(int channel) override;
  Verdict Receive(const Copy& copy) override;
  void Finish(const Copy& copy) override;
  void Withdraw(const Copy& copy) override;
  bool can_withdraw() const override { return true; }
  uint8_t bound() const override;
  std::string Key() const override;
  bool Matches(const Server& other) const override;
  const char* FindExcess() const override;

 private:
  using StreamTable = nfs::v4::sess01::StreamTable;

  StreamTable::Execution& ExecutionOf(const Copy& copy) {
    return executions_[static_cast<size_t>(Place(copy.request, copy.over))];
  }
  void End(const Copy& copy);

  StreamTable streams_;
  nfs::v4::sess01::Channels channels_;
  Rules rules_;
  std::array<StreamTable::Execution, kMostRequests * kMostChannels> executions_{};
  // Without the rule closes_named: the retries of each live channel.
  std::array<nfs::v4::sess01::Retries, kMostChannels> of_live_{};
};

}  // namespace penstock::explorer
