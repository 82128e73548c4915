// A refused group: it is not written, its run or request gets the message, and the rest of its batch is kept [Store 2].
export class Refused extends Error {}
