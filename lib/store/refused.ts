// A group that is refused: it is not written, its run or request learns the message, and the others of its batch are kept [Store 2].
export class Refused extends Error {}
