// Random numbers from a seed: the generator xoshiro128**, by Blackman and Vigna, in our own words.

/** Return a function that returns numbers from 0 up to 1; other words make another stream. */
export function randomFrom(...words) {
  const state = seeded(words);
  return () => {
    const found = rotated(Math.imul(state[1], 5), 7);
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 11);
    return (Math.imul(found, 9) >>> 0) / 2 ** 32;
  };
}

/** Return four words of state in which each bit depends on all words of the seed. */
function seeded(words) {
  let mixed = 0x9e3779b9;
  const mix = (word) => {
    mixed = Math.imul(mixed ^ word, 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    mixed = (mixed ^ (mixed >>> 16)) + 0x6d2b79f5;
    return mixed;
  };
  for (const word of words) {
    mix(word >>> 0);
    mix(Math.floor(word / 2 ** 32) >>> 0);
  }
  return Int32Array.from([1, 2, 3, 4], mix);
}

function rotated(word, by) {
  return (word << by) | (word >>> (32 - by));
}
