// Explores the chains of operations channels: Chain and ChainRun against a small specification, written from §2.7 of
// the draft and X15 of the decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/v4/state/sess01/chain.h"

namespace penstock::explorer {

// ---- the specification of one channel ----

enum class ChainState : uint8_t { kNone, kOpen, kBroken };
// How a request ends.
enum class RequestEnd : uint8_t { kSuccess, kFailure, kShort, kLoss };

struct ChainRuling {
  enum class Kind : uint8_t { kAlone, kJoins, kInvalid, kBroken };
  Kind kind{};
  ChainState after{};
};
// The answer to a request with this flag, and the state of the chain after it.
ChainRuling RulingOf(ChainState state, nfs4::ChainFlags flag, bool retry);
// The state of a chain after the end of one of its requests.
ChainState StateAfter(ChainState state, RequestEnd end);

// ---- the world ----

struct ChainEvent {
  enum class Kind : uint8_t {
    kArrive,  // a request arrives
    kRetry,   // a retry arrives, which names another channel
    kStart,   // a chained request begins to execute
    kFinish,  // it ends
    kFlush,   // a chained request of a broken chain is answered with CHAIN_BROKEN, or taken back after a loss
    kLose,    // the channel is lost
  };
  Kind kind{};
  uint8_t channel = 0;
  nfs4::ChainFlags flag{};  // kArrive, kRetry
  uint8_t request = 0;      // kStart, kFinish, kFlush: the place among the requests that are not answered
  RequestEnd end{};         // kFinish
};

struct ChainSize {
  size_t channels = 2;
  size_t waiting = 3;            // the most chained requests that are not answered, over all channels
  bool reports_failures = true;  // otherwise the chain is not told that a request is incomplete
};

// One state. It cannot be copied, since requests share their chains: replay the events that led to it.
class ChainWorld {
 public:
  explicit ChainWorld(const ChainSize& size) : size_(size), channels_(size.channels) {}

  std::vector<ChainEvent> ListEvents() const;
  // Returns what is wrong; empty if nothing is.
  std::string Happen(const ChainEvent& event);
  // Equal keys mean equal futures.
  std::string Key() const;

 private:
  using Run = nfs::v4::sess01::ChainRun;

  // A chain as the specification sees it.
  struct Model {
    uint32_t number = 0;
    ChainState state = ChainState::kOpen;
    Run::Filehandles filehandles{};  // as the last request left them
  };
  struct Request {
    nfs::v4::sess01::Chain::Judged judged;
    std::shared_ptr<Model> model;
    bool runs = false;
  };
  struct Channel {
    bool lost = false;
    nfs::v4::sess01::Chain chain{};
    ChainState state = ChainState::kNone;  // of the open chain
    std::shared_ptr<Model> open{};
    std::vector<Request> requests{};  // in chains, not answered, in the order of arrival
  };

  std::string Arrive(Channel& channel, const ChainEvent& event);
  std::string Start(Channel& channel, const ChainEvent& event);
  void Finish(Channel& channel, const ChainEvent& event);
  void Flush(Channel& channel, const ChainEvent& event);
  static void Lose(Channel& channel);
  std::string Check() const;
  static void Break(Channel& channel, Model& model, RequestEnd end);

  ChainSize size_;
  std::vector<Channel> channels_;
  uint32_t chains_ = 0;
  uint32_t handles_ = 0;
};

struct ChainReport {
  size_t states = 0;
  size_t steps = 0;
  std::string wrong{};
  std::string story{};
};
ChainReport ExploreChains(const ChainSize& size);

}  // namespace penstock::explorer
