// Tests the operations of the sessions of 2004 with the vectors of tests/sess01/vectors.txt, which another codec checks
// as well.
#include "protocol/nfs4_sess01.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "protocol/nfs4.h"
#include "protocol/nfs4_callback.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::nfs4 {
namespace {

using xdr::testing::Encoded;
using xdr::testing::EncodedHex;
using xdr::testing::Octets;

// One line of the file: the values that have these octets, or no values if a decoder must refuse the octets.
struct Vector {
  std::string line;
  std::string operation;
  std::string what;  // "arguments", "results" or "value"
  bool refused = false;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string octets;
};

Vector ParseVector(const std::string& line) {
  Vector vector;
  vector.line = line;
  const size_t colon = line.find(':');
  std::istringstream words(line.substr(0, colon));
  words >> vector.operation >> vector.what;
  for (std::string word; words >> word;) {
    if (word == "refused") {
      vector.refused = true;
    } else {
      const size_t equals = word.find('=');
      vector.fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  vector.octets = line.substr(colon + 1);
  return vector;
}

std::vector<Vector> ReadVectors() {
  std::ifstream file(PENSTOCK_SESS01_VECTORS);
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') vectors.push_back(ParseVector(line));
  }
  return vectors;
}

class Nfs4Sess01 : public ::testing::TestWithParam<Vector> {
 protected:
  // A number of the line. Zero if the line lacks it.
  template <class T>
  T Number(const std::string& name) const {
    for (const auto& [field, text] : GetParam().fields) {
      if (field == name) return static_cast<T>(std::stoull(text));
    }
    return T();
  }
  // Octets that live as long as the test.
  ConstBytes OpaqueOf(const std::string& text) {
    return kept_.emplace_back(Octets(pool_, text == "-" ? "" : text)).bytes();
  }
  ConstBytes Opaque(const std::string& name) {
    for (const auto& [field, text] : GetParam().fields) {
      if (field == name) return OpaqueOf(text);
    }
    return {};
  }
  nfsstat4 Status() const { return Number<nfsstat4>("status"); }

  // Checks that the octets are those of `value`; or that no T has these octets, if the line says so.
  template <class T>
  void Check(const T& value) {
    const xdr::Message message = xdr::Message::Whole(Octets(pool_, GetParam().octets));
    const auto decoded = xdr::DecodeWhole<T>(message);
    if (GetParam().refused) {
      EXPECT_FALSE(decoded.has_value());
      return;
    }
    EXPECT_EQ(decoded, value);
    EXPECT_EQ(EncodedHex(pool_, value), xdr::testing::Hex(Octets(pool_, GetParam().octets).bytes()));
  }

  // Fills the members that the arguments and the result of SESSION_BIND share.
  template <class T>
  T Limits(T value) {
    value.maxrequestsize = Number<count4>("maxrequestsize");
    value.maxresponsesize = Number<count4>("maxresponsesize");
    value.headerpadsize = Number<count4>("headerpadsize");
    value.maxrequests = Number<count4>("maxrequests");
    value.maxrdmareads = Number<count4>("maxrdmareads");
    value.transportattrs = Opaque("transportattrs");
    return value;
  }
  // The result of an operation, with `value` if the status is NFS4_OK.
  template <class T, class Ok>
  void CheckResult(const Ok& value) {
    Check(Status() == NFS4_OK ? T(NFS4_OK, value) : T(Status()));
  }

  SESSIONCREATE4args Create() {
    SESSIONCREATE4args args{.persist = Number<bool>("persist"), .totalrequests = Number<uint32_t>("totalrequests")};
    const ConstBytes verifier = Opaque("verifier");
    for (size_t i = 0; i < verifier.size(); ++i) args.clientid.verifier[i] = verifier[i];
    args.clientid.id = Opaque("id");
    return args;
  }
  SESSIONBIND4args Bind() {
    return Limits(SESSIONBIND4args{.sessionid = Number<uint64_t>("sessionid"),
                                   .channel = Number<ChannelType>("channel"),
                                   .mode = Number<ConnectionMode>("mode")});
  }
  transportattrs4 Attributes() {
    transportattrs4 attributes;
    for (const auto& [type, value] : GetParam().fields) {
      const transportattr4 attribute{.type = static_cast<uint32_t>(std::stoul(type)), .value = OpaqueOf(value)};
      attributes.push_back(attribute);
    }
    return attributes;
  }

  void CheckArguments() {
    const std::string& operation = GetParam().operation;
    if (operation == "OPERATION_CONTROL") {
      Check(OPERATIONCONTROL4args{.channelid = Number<uint32_t>("channelid"),
                                  .streamid = Number<uint32_t>("streamid"),
                                  .chainflags = Number<ChainFlags>("chainflags")});
    } else if (operation == "SESSION_CREATE") {
      Check(Create());
    } else if (operation == "SESSION_BIND") {
      Check(Bind());
    } else if (operation == "SESSION_DESTROY") {
      Check(xdr::Void());
    } else if (operation == "CB_CREDITRECALL") {
      Check(CB_CREDITRECALLargs{.target = Number<count4>("target")});
    } else {
      FAIL() << "unknown operation";
    }
  }
  void CheckResults() {
    const std::string& operation = GetParam().operation;
    if (operation == "OPERATION_CONTROL") {
      CheckResult<OPERATIONCONTROL4res>(Number<uint32_t>("streamid"));
    } else if (operation == "SESSION_CREATE") {
      CheckResult<SESSIONCREATE4res>(SESSIONCREATE4resok{.sessionid = Number<uint64_t>("sessionid"),
                                                         .persist = Number<bool>("persist"),
                                                         .totalrequests = Number<uint32_t>("totalrequests")});
    } else if (operation == "SESSION_BIND") {
      CheckResult<SESSIONBIND4res>(Limits(SESSIONBIND4resok{.channelid = Number<uint32_t>("channelid")}));
    } else if (operation == "SESSION_DESTROY") {
      Check(SESSION_DESTROYres{.status = Status()});
    } else if (operation == "CB_CREDITRECALL") {
      Check(CB_CREDITRECALLres{.status = Status()});
    } else {
      FAIL() << "unknown operation";
    }
  }

  BufferPool pool_;
  std::deque<Slice> kept_;
};

TEST_P(Nfs4Sess01, AgreesWithTheVector) {
  SCOPED_TRACE(GetParam().line);
  if (GetParam().operation == "ATTRIBUTES") {
    Check(Attributes());
  } else if (GetParam().what == "arguments") {
    CheckArguments();
  } else {
    ASSERT_EQ(GetParam().what, "results");
    CheckResults();
  }
}
INSTANTIATE_TEST_SUITE_P(File, Nfs4Sess01, ::testing::ValuesIn(ReadVectors()),
                         [](const auto& test) { return test.param.operation + "_" + std::to_string(test.index); });

TEST(Nfs4Sess01File, HasVectorsForEachOperation) {
  std::set<std::string> seen;
  for (const Vector& vector : ReadVectors()) seen.insert(vector.operation + " " + vector.what);
  EXPECT_EQ(seen.size(), 2 * 5 + 1U);
}

TEST(Nfs4Sess01File, AgreesOnTheNumbersOfOperationsAndErrors) {
  EXPECT_EQ(static_cast<int>(OP_OPERATION_CONTROL), 200401);
  EXPECT_EQ(static_cast<int>(OP_SESSION_CREATE), 200402);
  EXPECT_EQ(static_cast<int>(OP_SESSION_BIND), 200403);
  EXPECT_EQ(static_cast<int>(OP_SESSION_DESTROY), 200404);
  EXPECT_EQ(static_cast<int>(OP_CB_OPERATION_CONTROL), 200401);
  EXPECT_EQ(static_cast<int>(OP_CB_CREDITRECALL), 200405);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_BADSESSION), 200410);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_BADSTREAM), 200411);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_CHAIN_INVALID), 200412);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_CHAIN_BROKEN), 200413);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_NOT_BOUND), 200414);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_CONTROL_POS), 200415);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_BADBIND), 200416);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_BADCHANNEL), 200417);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_STREAM_INUSE), 200418);
  EXPECT_EQ(static_cast<int>(NFS4ERR_SESS01_UNKNOWN_FATE), 200419);
}

}  // namespace
}  // namespace penstock::nfs4
