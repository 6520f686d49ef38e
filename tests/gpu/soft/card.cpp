/* Fibers and where they wait. */
#include "card.hpp"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#define STACK_BYTES (128u << 10)

thread_local uint3 threadIdx, blockIdx;
thread_local dim3 gridDim, blockDim;

/* Saves what a call has to, moves to another stack and returns there. */
extern "C" void soft_switch(void **from, void *to);
asm(R"(
.text
.globl soft_switch
.type soft_switch, @function
soft_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size soft_switch, .-soft_switch
.section .note.GNU-stack, "", @progbits
.text
)");

namespace
{
struct fiber {
    void *at; /* top of its stack while it waits */
    bool ended;
};

/* A place where `alive` wait for each other: `turn` counts how often all were there, `yes` those of
 * this turn that bring true. */
struct meeting {
    unsigned alive, there, turn, yes, last_yes;
};

/* Values of two turns in a row: some lanes may still read those of the last one. */
struct warp {
    meeting met;
    uint64_t values[2][32];
};

struct block {
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    meeting met;
    uint64_t moves; /* arrivals, and ends */
    unsigned now;
    void *main;
    const std::function<void()> *kernel;
};

/* Of the fibers; only what they touch is there. Their ends are not all in the same cache lines. */
struct stacks {
    std::vector<char *> all;
    ~stacks()
    {
        for (char *stack : all) {
            munmap(stack, STACK_BYTES);
        }
    }
    char *end(size_t i)
    {
        while (all.size() <= i) {
            void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (stack == MAP_FAILED) {
                fprintf(stderr, "no memory for threads of a block\n");
                abort();
            }
            all.push_back((char *)stack);
        }
        return all[i] + STACK_BYTES - i % 64 * 64;
    }
};

thread_local block *running;
thread_local stacks fiber_stacks;

void
meet(meeting &met)
{
    if (met.alive > 0 && met.there == met.alive) {
        met.last_yes = met.yes;
        met.there = met.yes = 0;
        met.turn++;
    }
}

void
arrive(meeting &met, bool yes)
{
    met.there++;
    met.yes += yes;
    running->moves++;
    meet(met);
}

void
leave(meeting &met)
{
    met.alive--;
    meet(met);
}

void
wait_for_turn(const meeting &met, unsigned turn)
{
    block &b = *running;
    while (met.turn == turn) {
        soft_switch(&b.fibers[b.now].at, b.main);
    }
}

void
run_fiber()
{
    block &b = *running;
    (*b.kernel)();
    fiber &mine = b.fibers[b.now];
    mine.ended = true;
    b.moves++;
    leave(b.warps[b.now / 32].met);
    leave(b.met);
    soft_switch(&mine.at, b.main);
    abort();
}

/* So that the first switch to it returns into run_fiber. */
void *
fresh_stack(char *end)
{
    void **at = (void **)end;
    *--at = nullptr;
    *--at = (void *)run_fiber;
    for (unsigned i = 0; i < 6; i++) {
        *--at = nullptr;
    }
    return at;
}

void
run_block(block &b)
{
    size_t left = b.fibers.size();
    while (left > 0) {
        const uint64_t before = b.moves;
        for (unsigned i = 0; i < b.fibers.size(); i++) {
            if (!b.fibers[i].ended) {
                b.now = i;
                threadIdx = {i, 0, 0};
                soft_switch(&b.main, b.fibers[i].at);
                left -= b.fibers[i].ended;
            }
        }
        if (b.moves == before) {
            fprintf(stderr, "threads of a block wait for ever\n");
            abort();
        }
    }
}
} // namespace

unsigned
soft_lane()
{
    return running->now & 31;
}

void
soft_exchange(uint64_t mine, uint64_t all[32])
{
    block &b = *running;
    warp &w = b.warps[b.now / 32];
    const unsigned turn = w.met.turn;
    uint64_t *values = w.values[turn & 1];
    if (w.met.there == 0) {
        std::fill(values, values + 32, 0);
    }
    values[soft_lane()] = mine;
    arrive(w.met, false);
    wait_for_turn(w.met, turn);
    std::copy(values, values + 32, all);
}

int
soft_synchronize(bool mine)
{
    block &b = *running;
    const unsigned turn = b.met.turn;
    arrive(b.met, mine);
    wait_for_turn(b.met, turn);
    return (int)b.met.last_yes;
}

void
soft_yield()
{
    static thread_local uint64_t random = 1;
    random = random * 6364136223846793005u + 1442695040888963407u;
    if (random >> 61 == 0) {
        block &b = *running;
        b.moves++;
        soft_switch(&b.fibers[b.now].at, b.main);
    }
}

void
soft_launch(unsigned grid, unsigned threads, cudaStream_t stream,
            const std::function<void()> &kernel)
{
    if (!soft_may_launch(stream)) {
        return;
    }
    block b = {};
    gridDim = dim3(grid);
    blockDim = dim3(threads);
    b.kernel = &kernel;
    running = &b;
    for (unsigned g = 0; g < grid; g++) {
        blockIdx = {g, 0, 0};
        b.fibers.assign(threads, fiber());
        b.warps.assign((threads + 31) / 32, warp());
        b.met = {threads, 0, 0, 0, 0};
        for (unsigned i = 0; i < threads; i++) {
            b.fibers[i].at = fresh_stack(fiber_stacks.end(i));
            b.warps[i / 32].met.alive++;
        }
        run_block(b);
    }
    running = nullptr;
}
