// The probe for TLS and its answer (RFC 9289 §4.1), as a server and a client read them.
//
// Input: four octets of an XID, then the octets of a call or a reply.
#include "rpc/starttls.h"

#include "input.h"
#include "rpc/header.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own

void ReadAsCall(BufferPool& pool, ConstBytes octets) {
  if (!rpc::IsTlsProbe(octets)) return;
  const rpc::Message plain = rpc::WithoutTlsFlavor(pool, octets);
  if (rpc::IsTlsProbe(plain.stream.bytes())) fuzz::Die("the flavor is still there");
  xdr::Decoder decoder(plain);
  rpc::CallHeader header;
  if (rpc::DecodeCallHeader(decoder, header) != rpc::HeaderProblem::kNone) fuzz::Die("the plain call is malformed");
}

void ReadAsReply(BufferPool& pool, ConstBytes octets, rpc::Xid xid) {
  rpc::ParseTlsAnswer(octets, xid);
  const rpc::Message reply = rpc::Message::Whole(Slice::Borrowed(octets));
  const auto answer = rpc::WithStartTls(pool, reply);
  if (!answer) return;
  const rpc::Xid own(LoadBig<uint32_t>(octets.data()));
  if (rpc::ParseTlsAnswer(answer->stream.bytes(), own) != rpc::TlsAnswer::kStartTls) {
    fuzz::Die("the client does not understand the server's answer");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const ConstBytes number = input.Take(4);
  if (number.size() < 4) return 0;
  const ConstBytes octets = input.Take(size - 4);
  BufferPool pool;
  ReadAsCall(pool, octets);
  ReadAsReply(pool, octets, rpc::Xid(LoadBig<uint32_t>(number.data())));
  return 0;
}
