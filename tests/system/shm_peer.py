"""A peer that shares memory with the server, by hand: descriptors, offsets and what is given back."""

import array
import mmap
import os
import socket

import hspz_test


class ShmPeer(hspz_test.Peer):
    """Parts come as with a plain peer: their payloads are read from the ring and given back, unless
    `keep` is set."""

    def __init__(self, where, share=True, **more):
        super().__init__(where, **more)
        self.keep = False
        self.kept = []  # offsets that the server was not told are free
        self.ring = None
        self.ring_fd = self.input_fd = -1
        if share:
            self.share()

    def share(self):
        """Asks for shared memory; RpcError when it is refused."""
        number = self.request("shm.open")
        fds = array.array("i")
        data, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(8 * fds.itemsize))
        for level, kind, payload in control:
            assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            fds.frombytes(payload)
        self.unpacker.feed(data)
        result = self.result(number)
        assert len(fds) == 2, fds
        self.ring_fd, self.input_fd = fds
        self.ring_bytes, self.input_bytes = result["ring_bytes"], result["input_bytes"]
        assert os.fstat(self.ring_fd).st_size == self.ring_bytes
        assert os.fstat(self.input_fd).st_size == self.input_bytes
        self.ring = mmap.mmap(self.ring_fd, self.ring_bytes, prot=mmap.PROT_READ)

    def free(self, *offsets):
        self.send([2, "shm.free", list(offsets)])

    def give_back(self):
        """Everything, from now on as it comes."""
        self.free(*self.kept)
        self.kept = []
        self.keep = False

    def put(self, data, offset=0):
        """Writes to the input; returns the place."""
        assert os.pwrite(self.input_fd, data, offset) == len(data)
        return {"offset": offset, "length": len(data)}

    def receive(self):
        message = super().receive()
        if message[0] == 2 and isinstance(message[2][1], dict):
            place = message[2][1]
            assert set(place) == {"offset", "length"}, place
            begin, end = place["offset"], place["offset"] + place["length"]
            assert end <= self.ring_bytes
            message[2][1] = self.ring[begin:end]
            self.kept.append(begin)
            if not self.keep:
                self.give_back()
        return message

    def close(self):
        super().close()
        if self.ring is not None:
            self.ring.close()
            self.ring = None
        for fd in (self.ring_fd, self.input_fd):
            if fd >= 0:
                os.close(fd)
        self.ring_fd = self.input_fd = -1
