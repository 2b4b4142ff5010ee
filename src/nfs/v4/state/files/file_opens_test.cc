#include "nfs/v4/state/files/file_opens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "nfs/v4/state/files/records.h"

namespace penstock::nfs::v4 {
namespace {

using nfs4::OPEN4_SHARE_ACCESS_READ;
using nfs4::OPEN4_SHARE_ACCESS_WRITE;
using nfs4::OPEN4_SHARE_DENY_READ;
using nfs4::OPEN4_SHARE_DENY_WRITE;

// Keeps the opens of a few clients in FileOpens and in a plain list, which the tests search from end to end.
class FileOpensTest : public testing::Test {
 protected:
  OpenState& Add(size_t client, uint32_t by = 1) {
    auto& owner = *owners.emplace_back(std::make_unique<OpenOwner>(*clients[client], std::to_string(owners.size())));
    OpenState& open = *opens.emplace_back(std::make_unique<OpenState>(owner, file, FileHandle{ExportId(by), {}}));
    file.opens.Add(open);
    return open;
  }
  bool Any(auto predicate) const {
    return std::ranges::any_of(opens, [&](const auto& open) { return predicate(*open); });
  }

  FileState file{NamedFile{{ExportId(1), {}}, {1, *fs::Handle::FromBytes(AsBytes("file"))}}};
  std::vector<std::unique_ptr<ClientFiles>> clients;
  std::vector<std::unique_ptr<OpenOwner>> owners;
  std::vector<std::unique_ptr<OpenState>> opens;

  FileOpensTest() {
    for (uint64_t id = 1; id <= 3; ++id) clients.push_back(std::make_unique<ClientFiles>(ClientId(id)));
  }
};

TEST_F(FileOpensTest, FindsTheOldestConflict) {
  OpenState& first = Add(0);
  OpenState& second = Add(1);
  file.opens.SetShare(first, {OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE});
  file.opens.SetShare(second, {OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE});
  EXPECT_EQ(file.opens.FindConflict({OPEN4_SHARE_ACCESS_WRITE, 0}), &first);
  EXPECT_EQ(file.opens.FindConflict({OPEN4_SHARE_ACCESS_READ, 0}), nullptr);
  EXPECT_EQ(file.opens.FindConflict({OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_READ}), &first);
  EXPECT_EQ(file.opens.FindDenial(true, nullptr), &first);
  EXPECT_EQ(file.opens.FindDenial(true, &first), &second);
  EXPECT_EQ(file.opens.FindDenial(false, nullptr), nullptr);
}

TEST_F(FileOpensTest, FindsTheSameOpensAsALinearSearch) {
  std::mt19937_64 random(1);
  for (int step = 0; step < 5000; ++step) {
    const auto share = [&] { return Share{static_cast<uint32_t>(random() % 4), static_cast<uint32_t>(random() % 4)}; };
    switch (random() % 3) {
      case 0:
        if (opens.size() < 6) file.opens.SetShare(Add(random() % clients.size(), 1 + random() % 2), share());
        break;
      case 1:
        if (!opens.empty()) file.opens.SetShare(*opens[random() % opens.size()], share());
        break;
      default:
        if (opens.empty() || random() % 2) break;
        const auto gone = opens.begin() + static_cast<ptrdiff_t>(random() % opens.size());
        file.opens.Remove(**gone);
        opens.erase(gone);
    }
    ASSERT_EQ(file.opens.size(), opens.size());
    const Share asked = share();
    const OpenState* const conflict = file.opens.FindConflict(asked);
    ASSERT_EQ(conflict != nullptr, Any([&](const OpenState& open) { return Conflict(open.share, asked); }));
    if (conflict) {
      ASSERT_TRUE(Conflict(conflict->share, asked));
    }
    const OpenState* const own = opens.empty() ? nullptr : opens[random() % opens.size()].get();
    for (const bool write : {false, true}) {
      const uint32_t bit = write ? OPEN4_SHARE_DENY_WRITE : OPEN4_SHARE_DENY_READ;
      const auto denies = [&](const OpenState& open) { return &open != own && (open.share.deny & bit); };
      const OpenState* const denial = file.opens.FindDenial(write, own);
      ASSERT_EQ(denial != nullptr, Any(denies));
      if (denial) {
        ASSERT_TRUE(denies(*denial));
      }
    }
    for (const auto& client : clients) {
      for (const ExportId by : {ExportId(1), ExportId(2)}) {
        const Party party{client->id, by};
        const auto is_others = [&](const OpenState& open) {
          return open.client != client.get() || open.handle.export_id != by;
        };
        ASSERT_EQ(file.opens.HasOthers(party), Any(is_others));
        ASSERT_EQ(file.opens.HasOtherWriters(party),
                  Any([&](const OpenState& open) { return is_others(open) && open.share.writes(); }));
      }
    }
    for (const auto& open : opens) {
      ASSERT_EQ(file.opens.Find({open->owner, open->handle.export_id}), open.get());
      ASSERT_EQ(file.opens.Find({open->owner, ExportId(3)}), nullptr);
    }
  }
}

}  // namespace
}  // namespace penstock::nfs::v4
