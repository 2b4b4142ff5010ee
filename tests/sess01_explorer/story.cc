// Tells the way to an error in words.
#include <fmt/core.h>

#include "explorer.h"
#include "protocol/nfs4_types.h"

namespace penstock::explorer {
namespace {

std::string VerdictText(const World::Outcome& outcome) {
  switch (outcome.verdict.kind) {
    case Verdict::Kind::kRuns:
      return "and begins to execute it";
    case Verdict::Kind::kReplays:
      return outcome.reply_lost ? "and answers with the kept reply, which nobody receives"
                                : "and answers with the kept reply";
    case Verdict::Kind::kWaits:
      return "and lets it wait, because the request is under way";
    case Verdict::Kind::kRefused:
      return fmt::format("and refuses it with {}", XdrName(outcome.verdict.status));
  }
  return {};
}

std::string Tell(const State& before, const Event& event, const World::Outcome& outcome) {
  const int channel = event.channel + 1, request = event.request + 1;
  const int original = outcome.next.requests[event.request].original + 1;
  switch (event.kind) {
    case Event::Kind::kSend:
      return fmt::format("The client sends request {} over channel {} on streamid {}.", request, channel, event.stream);
    case Event::Kind::kRetry:
      return fmt::format("The client sends request {} again over channel {}, and names channel {}.", request, channel,
                         original);
    case Event::Kind::kGiveUp:
      return fmt::format("The client gives up channel {}.", channel);
    case Event::Kind::kRebind:
      return fmt::format("The client binds a new connection for channel {}.", channel);
    case Event::Kind::kLose:
      return fmt::format("The server sees that the connection of channel {} is lost.", channel);
    case Event::Kind::kReceive: {
      const bool late = (before.given_up >> event.channel & 1) != 0;
      std::string closes;
      for (int i = 0; i < kMostChannels; ++i) {
        if (outcome.closed >> i & 1) closes += fmt::format("closes channel {}, ", i + 1);
      }
      return fmt::format("The server receives request {} {}over channel {}, {}{}.", request, late ? "late " : "",
                         channel, closes, VerdictText(outcome));
    }
    case Event::Kind::kFinish:
      return fmt::format("The server has executed request {} of channel {}{}.", request, channel,
                         outcome.reply_lost ? "; its reply is lost" : ", and sends the reply");
    case Event::Kind::kWithdraw:
      return fmt::format("The server takes back request {} of channel {} unexecuted.", request, channel);
    case Event::Kind::kReply:
      return fmt::format("The client receives the reply to request {} over channel {}.", request, channel);
  }
  return {};
}

}  // namespace

std::string Story(World& world, const Report& report) {
  std::string story;
  State state = world.first();
  int number = 0;
  for (const Event& event : report.way) {
    const auto outcome = world.Happen(state, event);
    story += fmt::format("{:3}. {}\n", ++number, Tell(state, event, outcome));
    state = outcome.next;
  }
  return story + fmt::format("Wrong: {}.\n", report.wrong);
}

}  // namespace penstock::explorer
